"""Shapes that depend on numbers: those of the real run where numbers follow from the batch, the most where not."""

import pytest
import torch
from nets import Net, conv
from torch import nn

from hires.memory import simulate_values
from hires.memory.simulate import Simulation, simulate
from hires.memory.simulate_values import SimulationError


class Asked(nn.Module):
    """A layer, a buffer, and a tensor that is neither."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("table", torch.tensor([1.0, 0.0, 2.0, 0.0, 3.0]))
        self.own = torch.tensor([0.0, 1.0, 1.0])

    def rows(self, count=6):
        """What a network gives."""
        return self.linear(torch.ones(count, 4))


def answers(question):
    """What a question gives in a real run, and in a simulated one."""
    torch.manual_seed(0)
    real = question(Asked())
    return real, simulated(question)


def simulated(question, device="cpu"):
    found = []
    simulate(lambda module, _: found.append(question(module)), Asked(), device=device)
    return found[-1]


def mask(module):
    x = torch.arange(20.0)
    return x[x % 3 == 0].shape, x.masked_select(x > 4).shape


def buffer(module):
    table = module.table
    return table.nonzero().shape, table[table > 1].shape, table.unique().shape, torch.where(table > 1)[0].shape


def own_tensor(module):
    return module.own.nonzero().shape, (module.own * module.table[:3]).nonzero().shape


def unique(module):
    values, inverse, counts = torch.tensor([1, 1, 2, 5]).unique(return_inverse=True, return_counts=True)
    return values.shape, inverse.tolist(), counts.tolist()


def counted(module):
    classes = torch.tensor([1, 1, 9])
    return torch.bincount(classes).shape, torch.bincount(classes, minlength=20).shape


def item(module):
    sizes = [int(size) for size in module.table.tolist()]
    parts = [part.shape for part in torch.ones(6).split(sizes)]
    return torch.zeros(int(module.table.sum())).shape, float(module.table.max()), parts


def repeated(module):
    return torch.arange(3).repeat_interleave(torch.tensor([1, 2, 3])).shape


def random(module):
    """Random numbers are those of a run with seed 0."""
    torch.manual_seed(0)
    return (torch.rand(1000) > 0.5).nonzero().shape, torch.randperm(10)[torch.randperm(10) > 3].shape


def compared(module):
    return torch.equal(module.table, module.table + 0), torch.allclose(module.table, module.table + 1)


def in_place(module):
    x = torch.zeros(10)
    x[2:5] = 1
    x[7].fill_(1)
    x[torch.tensor([0, 1])] = 1
    before = x.nonzero().shape
    x.scatter_(0, torch.tensor([9]), 1.0)
    return before, x.nonzero().shape


def through_a_view(module):
    """Before the first number is asked for, and after it."""
    x = torch.zeros(3, 4)
    flat = x.view(-1)
    flat[3] = 5
    before = x.nonzero().shape
    x[:, 1].add_(1)
    return before, flat.nonzero().shape


def given_for_the_result(module):
    x = torch.zeros(5)
    torch.add(torch.ones(5), 1, out=x)
    return x.nonzero().shape


KNOWN = (mask, buffer, own_tensor, unique, counted, item, repeated, random, compared)
WRITTEN = (in_place, through_a_view, given_for_the_result)


@pytest.mark.parametrize("question", [*KNOWN, *WRITTEN])
def test_known_numbers(question):
    real, answer = answers(question)
    assert answer == real


@pytest.mark.parametrize("question", [each for each in KNOWN if each not in (own_tensor, random)])
def test_on_a_device_that_is_not_there(question):
    def asked(module):
        with torch.device("cuda"):
            return question(module)

    assert simulated(asked, "cuda") == answers(question)[0]


def chosen_by_mask(module):
    x = module.rows()
    return x[x > 100].shape, x.masked_select(x > 100).shape


def chosen_rows(module):
    x = module.rows()
    return x[x[:, 0] > 100].shape


@pytest.mark.parametrize(
    ("question", "all_of_it"), [(chosen_by_mask, ((24,), (24,))), (chosen_rows, (6, 4))], ids=["mask", "rows"]
)
def test_a_mask_of_unknown_numbers_keeps_all(question, all_of_it):
    real, answer = answers(question)
    assert real != all_of_it
    assert answer == all_of_it


@pytest.mark.parametrize(
    "written",
    [
        lambda x, y: x.copy_(y),
        lambda x, y: x[:3].copy_(y[:3]),
        lambda x, y: x.view(2, 2).t().copy_(y.view(2, 2)),
        lambda x, y: torch._foreach_add_([x], [y]),
        lambda x, y: torch.add(y, 1, out=x),
    ],
    ids=["whole", "part", "view", "list", "out"],
)
def test_numbers_that_were_known(written):
    """What a network has been written into is not taken for what it was."""

    def question(module):
        x = torch.zeros(4)
        assert len(x.nonzero()) == 0
        written(x, module.rows(1)[0].detach())
        return x[x > 0].shape

    assert simulated(question) == (4,)


def test_unknown_counts_are_bounded():
    def question(module):
        return torch.bincount(module.rows().detach().argmax(1), minlength=7).shape

    assert simulated(question) == (7,)


def places(module):
    return len((module.rows(50) > 0).nonzero())


def classes(module):
    return len(module.rows(50).argmax(1).unique())


def a_number(module):
    return float(module.rows().sum())


@pytest.mark.parametrize("question", [places, classes, a_number])
def test_where_numbers_must_be_known_they_are_invented(question):
    one = simulated(question)
    assert one == simulated(question)  # the same every time
    if question is places:
        assert 0 < one < 200
    elif question is classes:
        assert 0 < one <= 4


def test_a_simulation_that_invents_goes_on_so():
    """The step is run again from its beginning, once."""
    runs = []
    simulation = Simulation(Asked())

    def step():
        runs.append(0)
        places(simulation.module)
        runs.append(1)

    simulation.profile(step)
    assert runs == [0, 0, 1]
    simulation.profile(step)
    assert runs == [0, 0, 1, 0, 1]


def test_invented_numbers_are_small():
    """As those of a detector's last layers: no box is far away, no score is sure."""
    assert abs(simulated(a_number)) < 0.1


def test_of_much_all_is_chosen(monkeypatch):
    monkeypatch.setattr(simulate_values, "MOST_INVENTED", 100)
    assert simulated(places) == 200


@pytest.mark.parametrize(
    "question",
    [lambda x: torch.equal(x, x + 1), lambda x: torch.arange(x.numel()).repeat_interleave(x.long().flatten())],
    ids=["equal", "repeat_interleave"],
)
def test_a_number_of_a_large_result(question, monkeypatch):
    monkeypatch.setattr(simulate_values, "MOST_INVENTED", 100)
    with pytest.raises(SimulationError, match="asks for a number that the network gives, which cannot be known"):
        simulated(lambda module: question(module.rows(50)))


def test_known_numbers_of_large_tensors_are_not_followed(monkeypatch):
    monkeypatch.setattr(simulate_values, "MOST", 100)
    assert simulated(lambda module: torch.zeros(101)[torch.zeros(101) > 0].shape) == (101,)
    assert simulated(lambda module: torch.zeros(100)[torch.zeros(100) > 0].shape) == (0,)


def test_buffers_of_a_module_without_memory_are_not_known():
    with torch.device("meta"):
        module = Asked()
    module.own = torch.ones(3)
    found = []
    simulate(lambda module, _: found.append(module.table[module.table > 100].shape), module)
    assert found == [(5,)]


def test_the_numbers_of_the_module_stay():
    """A simulated step counts and overwrites in its copy."""
    module = Asked()

    def step(copied, _):
        copied.table.zero_()
        copied.own.add_(1)
        assert len(copied.table.nonzero()) == 0

    simulate(step, module)
    assert module.table.tolist() == [1, 0, 2, 0, 3]
    assert module.own.tolist() == [0, 1, 1]


def test_numbers_do_not_keep_memory():
    """What is noted of a tensor does not keep it."""

    def step(net, _):
        for _ in range(20):
            x = torch.zeros(2**18) + 1
            len(x[:3].nonzero())

    profile = simulate(step, Net(conv(3)))
    assert profile.live < 4 * 2**20  # of 1 MiB each: the last, the new one, and what it is made of
