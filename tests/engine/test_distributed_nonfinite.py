"""What is not finite in one of two processes: both skip the step, and the main one tells whose images it had."""

import logging

import pytest
import torch
import torch.distributed as dist

from hires.engine.nonfinite import Guard
from hires.engine.progress import Progress
from hires.engine.share import OfSeveral
from hires.engine.step import train_step
from hires.interfaces import CommonError
from tests.processes import in_processes
from tests.recovering import make_samples, make_task, same

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_both_leave_out_what_one_cannot_do(where, tmp_path):
    def check(group):
        told = []
        handler = logging.Handler()
        handler.emit = lambda record: told.append(record)
        logging.getLogger("hires").addHandler(handler)
        task, progress = make_task("group", 0.0), Progress()
        samples = [sample._replace(name=f"{index}.png") for index, sample in enumerate(make_samples(task, 64))]
        with group.joined() as ranks:
            optimizer = torch.optim.AdamW(task.parameters(), lr=0.01)
            guard = Guard(task, progress, 1, ranks=ranks)

            def backward(loss):
                loss.backward()
                if progress.step in (1, 2) and ranks.rank == 1 and where == "gradient":
                    next(task.parameters()).grad.fill_(float("inf"))

            def forward(batch, normalizers):
                losses = task(batch, normalizers)
                bad = progress.step in (1, 2) and ranks.rank == 1 and where == "loss"
                return {name: loss * float("nan") if bad else loss for name, loss in losses.items()}

            forward.normalizers = task.normalizers

            def step():
                share = OfSeveral(ranks, optimizer)
                how = {"micro_batch_size": 2, "backward": backward, "share": share, "guard": guard}
                losses = train_step(forward, samples[ranks.rank :: 2], optimizer, **how)
                progress.step += 1
                return losses

            assert step()
            before = {name: value.clone() for name, value in task.state_dict().items()}
            assert step() == {}
            same(dict(task.state_dict()), before)
            with pytest.raises(CommonError, match=r"step 3: .* at first step 2 "):
                step()
        # one line a process and step: that of the main one is shown, the others' is marked as the same
        assert [record.alike for record in told] == [True, True]
        assert told[0].getMessage().endswith("Images of the batch: 1.png, 3.png, 5.png, 7.png")
        torch.save(task.state_dict(), tmp_path / f"{group.rank}.pt")

    in_processes(2, check)
    same(*(torch.load(tmp_path / f"{rank}.pt") for rank in range(2)))
