"""Lives of blocks: totals, the peak, what each is for; how a step's are recorded, and what it computes."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from hires.memory.costs import BALANCE, LAUNCH, work
from hires.memory.meter import LivePeak, Recorder
from hires.memory.profile import profile_of
from hires.memory.timeline import (
    ACTIVATIONS,
    CATEGORIES,
    GRADIENTS,
    INPUTS,
    LOSS,
    PARAMETERS,
    RECOMPUTED,
    TEMPORARIES,
    WORKSPACE,
    Place,
    Timeline,
)

CPU = torch.device("cpu")
INPUT, FORWARD, BACKWARD, UPDATE = map(Place, ("input", "forward", "backward", "update"))
HEAD, LOSSES, AGAIN = Place("forward", "head"), Place("forward", "loss"), Place("recompute", "head")


def small_step():
    """A step of a network of one unit, with the block that each category is expected for."""
    timeline = Timeline()
    blocks = {
        PARAMETERS: timeline.add(100, INPUT, PARAMETERS),
        INPUTS: timeline.add(10, INPUT),
        ACTIVATIONS: timeline.add(20, HEAD),
    }
    within = timeline.add(1000, HEAD)
    timeline.end(within)
    blocks[LOSS] = timeline.add(30, LOSSES)
    gradient = timeline.add(40, BACKWARD)
    blocks[RECOMPUTED] = timeline.add(50, AGAIN)
    timeline.arrive(BACKWARD)
    timeline.passing(60, BACKWARD, WORKSPACE)
    for name in (RECOMPUTED, ACTIVATIONS, LOSS):
        timeline.end(blocks[name])
    blocks[GRADIENTS] = timeline.add(70, BACKWARD, GRADIENTS)
    timeline.end(gradient)
    timeline.arrive(UPDATE)
    timeline.end(blocks[GRADIENTS])
    timeline.end(blocks[INPUTS])
    return timeline, blocks, [within, gradient]


def test_what_blocks_are_for():
    timeline, blocks, temporaries = small_step()
    assert {name: timeline.category(block) for name, block in blocks.items()} == {name: name for name in blocks}
    assert {timeline.category(block) for block in temporaries} == {TEMPORARIES}


def test_a_block_that_moves_between_units_within_a_phase_is_temporary():
    timeline = Timeline()
    block = timeline.add(1, HEAD)
    timeline.arrive(Place("forward", "other"))
    timeline.end(block)
    timeline.arrive(BACKWARD)
    assert timeline.category(block) == TEMPORARIES


def test_what_is_never_freed_outlives_its_phase():
    timeline = Timeline()
    assert timeline.category(timeline.add(1, HEAD)) == ACTIVATIONS


@pytest.mark.parametrize(("unit", "category"), [("loss", LOSS), ("loss.1", LOSS), ("lossy", ACTIVATIONS)])
def test_units_of_the_loss(unit, category):
    timeline = Timeline()
    assert timeline.category(timeline.add(1, Place("forward", unit))) == category


def test_bytes_after_each_event():
    timeline, _, _ = small_step()
    live = timeline.live()
    assert live == [100, 110, 130, 1130, 130, 160, 200, 250, 310, 250, 200, 180, 150, 220, 180, 110, 100]
    assert timeline.peak() == (1130, 3)
    assert timeline.peak(without=[TEMPORARIES]) == (270, 8)
    assert timeline.peak(without=[TEMPORARIES, WORKSPACE, PARAMETERS]) == (110, 7)
    assert Timeline().peak() == (0, 0)


def test_categories_add_up_at_every_event():
    timeline, _, _ = small_step()
    layers = timeline.by_category()
    assert list(layers) == list(CATEGORIES)
    assert [sum(moment) for moment in zip(*layers.values(), strict=True)] == timeline.live()
    for event in range(timeline.events):
        assert timeline.categories_at(event) == {name: values[event] for name, values in layers.items()}


def test_where_the_step_is():
    timeline, _, _ = small_step()
    places = [timeline.place_of(event) for event in range(timeline.events)]
    assert places[:2] == [INPUT] * 2
    assert places[2:5] == [HEAD] * 3
    assert places[5:8] == [LOSSES, BACKWARD, AGAIN]
    assert places[8:15] == [BACKWARD] * 7
    assert places[15:] == [UPDATE] * 2


def test_births_and_deaths_in_order():
    timeline, blocks, _ = small_step()
    live, seen = 0, []
    for block, born in timeline.ordered():
        live += block.size if born else -block.size
        seen.append(live)
    assert seen == timeline.live()


def test_on_the_cpu_what_is_live_is_allocated():
    timeline, _, _ = small_step()
    profile = profile_of(timeline, "cpu")
    assert (profile.live, profile.allocated, profile.cached) == (1130, 1130, 1130)
    assert profile.reserved == 1130 + profile.context > 1130
    assert profile.peak_at == HEAD
    assert sum(profile.categories.values()) == 1130


def test_workspace_is_allocated_but_not_live():
    timeline = Timeline()
    timeline.add(10, INPUT)
    timeline.passing(5, FORWARD, WORKSPACE)
    profile = profile_of(timeline, "cpu")
    assert (profile.live, profile.allocated) == (10, 15)


def test_on_cuda_the_allocator_rounds():
    timeline = Timeline()
    timeline.add(1, INPUT)
    timeline.end(timeline.add(513, FORWARD))
    profile = profile_of(timeline, "cuda")
    assert (profile.live, profile.allocated, profile.cached) == (514, 1536, 2 * 2**20)
    assert profile.reserved == 2 * 2**20 + profile.context > 100 * 2**20


def test_what_units_keep_is_what_is_there_when_the_first_backward_begins():
    timeline, _, _ = small_step()
    more = timeline.add(5, HEAD)
    timeline.arrive(BACKWARD)
    timeline.end(more)
    assert profile_of(timeline, "cpu").kept() == {"head": 20, "loss": 30}


def test_the_share_of_what_is_computed_again():
    timeline = Timeline()
    timeline.work = {HEAD: 30.0, BACKWARD: 70.0, AGAIN: 25.0}
    assert profile_of(timeline, "cpu").recomputed() == {"head": 0.25}
    assert profile_of(Timeline(), "cpu").recomputed() == {}


def recorded(run, workspace=None):
    recorder = Recorder(CPU, workspace)
    with recorder:
        run(recorder)
    return recorder.timeline


def test_storages_are_recorded_once():
    @torch.no_grad()
    def run(recorder):
        recorder.place = HEAD
        x = torch.ones(100)
        y = x.view(10, 10)[2:]
        y += 1
        del x
        recorder.place = BACKWARD
        z = y * 2
        del y, z

    timeline = recorded(run)
    assert [(block.size, block.place) for block in timeline.blocks] == [(400, HEAD), (320, BACKWARD)]
    assert timeline.live() == [400, 720, 320, 0]


def test_what_is_given_is_there_from_the_start():
    tensors = [torch.ones(10), torch.ones(5)]
    recorder = Recorder(CPU)
    recorder.give([*tensors, tensors[0][:5], torch.empty(3, device="meta")], PARAMETERS)
    assert [(block.size, block.category) for block in recorder.timeline.blocks] == [
        (40, PARAMETERS),
        (20, PARAMETERS),
    ]


def test_only_tensors_on_the_device_count():
    timeline = recorded(lambda _: (torch.ones(10), torch.empty(10, device="meta") + 1))
    assert [block.size for block in timeline.blocks] == [40]


def test_with_gradients_enabled_a_backward_computes_again():
    def run(recorder):
        recorder.place = Place("backward", "head")
        with torch.no_grad():
            torch.ones(1)
        with torch.enable_grad():
            torch.ones(2)

    assert [block.place for block in recorded(run).blocks] == [Place("backward", "head"), AGAIN]


class Twice:
    fixed = 7

    def __call__(self, function, args, result):
        return 2 * result.numel() if isinstance(result, Tensor) else 0


def test_workspace_passes_with_its_operation():
    timeline = recorded(lambda _: torch.ones(10), Twice())
    assert [(block.size, block.category) for block in timeline.blocks] == [
        (7, WORKSPACE),
        (40, None),
        (20, WORKSPACE),
    ]
    assert timeline.live() == [7, 47, 67, 47, 7]


def test_the_meter_and_the_recorder_agree():
    def run():
        x = torch.ones(50, requires_grad=True)
        (x * 2).exp().sum().backward()

    with LivePeak() as meter:
        run()
    assert recorded(lambda _: run()).peak()[0] == meter.peak


def done(run):
    return sum(recorded(run).work.values())


def test_the_work_of_a_convolution_is_its_products():
    image, weight = torch.ones(2, 16, 40, 40), torch.ones(16, 16, 3, 3)
    found = done(lambda _: functional.conv2d(image, weight, padding=1))
    assert found == 2 * (2 * 16 * 40 * 40) * (16 * 3 * 3)


def test_the_work_of_a_convolution_with_few_products_is_what_it_moves():
    image, weight = torch.ones(2, 3, 40, 40), torch.ones(4, 3, 1, 1)
    found = done(lambda _: functional.conv2d(image, weight))
    assert found == BALANCE["cpu"] * 4 * (image.numel() + weight.numel() + 2 * 4 * 40 * 40)


def test_the_work_of_a_pointwise_operation_is_what_it_moves():
    x = torch.ones(10000)
    assert done(lambda _: x + x) == BALANCE["cpu"] * 120000


def test_a_kernel_takes_some_time_whatever_it_does():
    x = torch.ones(1)
    assert done(lambda _: x + x) == LAUNCH["cpu"]


def test_views_empty_tensors_and_questions_are_no_work():
    x = torch.ones(4, 4)
    assert done(lambda _: (x.t(), x[1:], x.detach(), torch.empty(10), torch.empty_like(x), x.device)) == 0
    with FakeTensorMode():
        fake = torch.ones(4, 4)
        assert done(lambda _: (fake.device, fake.shape)) == 0


def test_on_cuda_moving_costs_more():
    x, result = torch.ones(10), torch.ones(10)
    times = [
        work(torch.ops.aten.neg.default, (x,), {}, result, torch.device(device)) for device in ("cpu", "cuda")
    ]
    assert times[0] < times[1]


def test_a_meta_tensor_takes_nothing():
    with LivePeak() as meter:
        torch.empty(10**6, device="meta")
        torch.empty(8)
    assert meter.peak == 32
