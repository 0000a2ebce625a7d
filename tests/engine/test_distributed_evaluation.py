"""Evaluation by two processes: exactly what one finds, in both; and what they say to each other when one fails."""

import time

import numpy as np
import pytest
import torch
import torch.distributed as dist

from hires.data.loader import StepSampler
from hires.engine.evaluate import FittingViews, evaluate
from hires.engine.views import Views
from hires.evaluation.detection import DetectionEvaluator
from hires.evaluation.segmentation import LabelRows, SegmentationEvaluator
from hires.interfaces import ConfigError, DataError, LostProcess
from hires.ops.blend import blend
from hires.ops.boxes import Detections
from tests.processes import in_processes
from tests.recovering import CUDA

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")
CLASSES = ("a", "b", "c")


class Images:
    """Random images with masks and boxes."""

    classes = CLASSES

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def read(self, index, window=None):
        rng = np.random.default_rng(index)
        corners = rng.uniform(0, 40, (4, 2))
        return rng.integers(0, 256, (70, 90, 3), dtype=np.uint8), {
            "mask": rng.integers(0, 3, (70, 90)).astype(np.uint8),
            "boxes": np.concatenate([corners, corners + 20], 1).astype(np.float32),
            "labels": rng.integers(0, 3, 4),
            "ignored": rng.random(4) < 0.2,
            "areas": np.full(4, 400, np.float32),
            "size": np.array((70, 90)),
        }


class Masks(torch.nn.Module):
    """Classes by brightness; memory runs out in the given calls."""

    def __init__(self, *bad):
        super().__init__()
        self.bad, self.calls = bad, 0

    def predict(self, batch):
        self.calls += 1
        if self.calls - 1 in self.bad:
            raise CUDA
        shade = batch.images.float().mean(1, keepdim=True) / 85
        return torch.cat([(shade - index).abs().neg() for index in range(3)], 1).softmax(1)

    def stitch(self, size, predictions):
        for top, probabilities in blend(size, predictions):
            yield LabelRows(top, probabilities.argmax(0).byte().numpy())


class Boxes(Masks):
    """Boxes by chance, with few different scores."""

    def stitch(self, size, predictions):
        seed = int(sum(float(prediction.sum()) for _, prediction in predictions))
        generator = torch.Generator().manual_seed(seed)
        corners = 40 * torch.rand(9, 2, generator=generator)
        scores = torch.randint(1, 4, (9,), generator=generator) / 4
        labels = torch.randint(3, (9,), generator=generator)
        yield Detections(torch.cat([corners, corners + 20], 1), scores, labels, size)


class Told:
    def __init__(self):
        self.numbers = []

    def __call__(self, *numbers):
        self.numbers.append(numbers)


@pytest.mark.parametrize("count", [5, 1])
def test_two_processes_find_what_one_finds(count):
    """With one image the second process has none. Memory that runs out in one halves its own views alone."""
    views = Views("window", (32, 48), 0.25, batch_size=4)

    def check(group):
        for make, evaluator in ((Masks, SegmentationEvaluator), (Boxes, DetectionEvaluator)):
            whole = evaluator(CLASSES)
            expected = evaluate(make(), Images(count), whole, FittingViews(views))
            with group.joined() as ranks:
                bad = [1] if ranks.rank == 1 and count > 1 else []
                mine, fitting, told = evaluator(CLASSES), FittingViews(views), Told()
                found = evaluate(make(*bad), Images(count), mine, fitting, ranks=ranks, progress=told)
                assert str(found) == str(expected)
                assert fitting.views.batch_size == (2 if bad else 4)
                assert told.numbers[-1:] == ([(count, count)] if count > 1 or ranks.main else [])
                if ranks.main and make is Masks:
                    assert np.array_equal(mine.confusion.counts, whole.confusion.counts)

    in_processes(2, check)


def test_what_one_process_raises_before_a_collective():
    def check(group):
        def end(make, kind, message):
            with pytest.raises(kind if group.rank == 0 else SystemExit) as caught:
                make()
            assert message in str(caught.value) or group.rank

        def wrong(kind, rank):
            if group.rank == rank:
                raise kind(f"said by {rank}")
            return group.rank

        with group.joined() as ranks:
            assert ranks.together(lambda: ranks.rank) == ranks.rank
            assert ranks.by_main(lambda: ranks.rank) == 0
            assert ranks.first_here(lambda: ranks.rank) == ranks.rank
            end(lambda: ranks.by_main(lambda: wrong(ConfigError, 0)), ConfigError, "said by 0")
            end(lambda: ranks.together(lambda: wrong(DataError, 1)), DataError, "said by 1")
            end(
                lambda: ranks.first_here(lambda: StepSampler(9, 1, 0, 4, ranks.rank, 2)), ConfigError, "per device"
            )

    in_processes(2, check)


def test_a_process_that_is_gone_is_noticed():
    def check(group):
        ranks = group.joined()
        if ranks.rank == 1:
            dist.destroy_process_group()
            return
        begin = time.monotonic()
        with pytest.raises(LostProcess, match=r"one of its processes has ended or cannot be reached \(.*by peer"):
            ranks.gather(1)
        assert time.monotonic() - begin < 20

    in_processes(2, check)


def test_parameters_and_buffers_are_those_of_the_main_process():
    def check(group):
        torch.manual_seed(group.rank)
        module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        module(torch.randn(2, 3, 8, 8))
        with group.joined() as ranks:
            own = [tensor.clone() for tensor in (*module.parameters(), *module.buffers())]
            expected = ranks.gather(own)[0]
            ranks.spread_buffers(module)
            found = ranks.gather([tensor.clone() for tensor in module.parameters()])
            assert not torch.equal(found[0][0], found[1][0])
            ranks.spread(module)
            for tensor, wanted in zip((*module.parameters(), *module.buffers()), expected, strict=True):
                assert torch.equal(tensor, wanted)
            assert all(p.requires_grad for p in module.parameters())

    in_processes(2, check)
