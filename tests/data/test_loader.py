"""Steps get the same samples whatever the workers, ranks and restarts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hires.data.augment import Augment
from hires.data.loader import StepSampler, make_loader
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset
from hires.interfaces import ConfigError, DataError, Sample
from hires.settings import SettingError

counts = st.integers(1, 12)


@given(counts, counts, st.integers(0, 20), st.integers(0, 20))
def test_resuming_gives_the_later_steps(windows, batch, start, steps):
    whole = list(StepSampler(windows, batch, 0, steps))
    assert list(StepSampler(windows, batch, start, steps)) == whole[start:]
    assert all(len(keys) == batch for keys in whole)
    assert len(set(sum(whole, []))) == batch * steps


@given(counts, st.integers(1, 4), st.integers(0, 8))
def test_ranks_share_every_step(batch, world, spare):
    batch += world
    ranks = [list(StepSampler(30, batch, 0, 9, rank, world)) for rank in range(world)]
    for whole, *shares in zip(StepSampler(30, batch, 0, 9), *ranks, strict=True):
        assert sorted(sum(shares, [])) == whole
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_epochs_are_full_steps():
    sampler = StepSampler(5, 2, 0, 4)
    assert len(sampler) == 4
    assert sampler.steps_per_epoch == 3
    assert list(sampler) == [[(0, 0), (0, 1)], [(0, 2), (0, 3)], [(0, 4), (0, 5)], [(1, 0), (1, 1)]]


def test_a_batch_must_reach_every_rank():
    with pytest.raises(ConfigError, match="batch_size"):
        StepSampler(5, 2, 0, 4, 0, 3)


@pytest.fixture
def dataset(small_set, settings):
    import albumentations as A

    augment = Augment([A.RandomRotate90(), A.Rotate(), A.GaussNoise()])
    source = settings(cache_gib=1).source("train")
    return WindowDataset(source, (16, 16), WindowSettings(), augment, 3)


def test_workers_change_nothing(dataset):
    sampler = StepSampler(12, 4, 1, 6)
    runs = [list(make_loader(dataset, sampler, workers, pin_memory=False)) for workers in (0, 1, 4)]
    assert [len(run) for run in runs] == [5] * 3
    assert len(runs[0][0]) == 4
    for steps in zip(*runs, strict=True):
        for first, *others in zip(*steps, strict=True):
            assert isinstance(first, Sample)
            for other in others:
                assert first.name == other.name
                assert torch.equal(first.image, other.image)
                assert torch.equal(first.target["mask"], other.target["mask"])


@pytest.mark.parametrize("workers", [0, 1])
def test_the_global_random_state_is_left_alone(dataset, workers):
    before = torch.get_rng_state()
    assert len(list(make_loader(dataset, StepSampler(4, 2, 0, 2), workers, pin_memory=False))) == 2
    assert torch.equal(torch.get_rng_state(), before)


class Broken:
    """Raises what it was made with, after one good sample."""

    def __init__(self, error):
        self.error = error

    def __getitem__(self, key):
        if key == (0, 0):
            return Sample(torch.zeros(1), {}, "good")
        raise self.error


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DataError("x.png: is broken; remove it"), DataError),
        (ConfigError("augmentation: no"), ConfigError),
        (SettingError("a", 1, "2"), ConfigError),
    ],
    ids=["data", "config", "setting"],
)
def test_errors_arrive_as_they_were(workers, error, kind):
    steps = iter(make_loader(Broken(error), StepSampler(4, 1, 0, 2), workers, pin_memory=False))
    assert next(steps)[0].name == "good"
    with pytest.raises(kind) as caught:
        next(steps)
    assert str(caught.value) == str(error)


def test_a_broken_file_is_named(small_set, dataset, settings):
    (small_set / "images" / "0.png").write_bytes(b"")
    loader = make_loader(dataset, StepSampler(100, 4, 0, 25), 2, pin_memory=False)
    with pytest.raises(DataError, match=r"images/0.png: the file is empty \(0 bytes\); [^\n]*$"):
        list(loader)
