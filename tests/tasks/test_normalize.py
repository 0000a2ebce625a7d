"""Pixels of every type become the numbers that the settings say."""

import numpy as np
import pytest
import torch

from hires.interfaces import Normalization
from hires.tasks.network_task import Normalize

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
LOW, HIGH = (100.0, 200.0, 300.0), (1100.0, 1200.0, 1300.0)


def images(dtype):
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 120, (2, 3, 4, 5)).astype(dtype) * (1 if dtype == "uint8" else 20))


def column(values):
    return np.array(values).reshape(3, 1, 1)


def used(method, dtype="uint16", **more):
    normalize = Normalize(MEAN, STD)
    normalize.use(Normalization(method, dtype, LOW, HIGH, **more))
    return normalize


@pytest.mark.parametrize(("dtype", "most"), [("uint8", 255), ("uint16", 65535), ("int16", 32767), ("float32", 1)])
def test_by_the_range_of_the_type(dtype, most):
    pixels = images(dtype)
    wanted = (pixels.numpy() / most - column(MEAN)) / column(STD)
    for normalize in (Normalize(MEAN, STD), used("dtype", dtype)):
        np.testing.assert_allclose(normalize(pixels), wanted, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["percentile", "window", "minmax"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_by_ends_with_or_without_what_is_beyond(dtype, method):
    pixels = images(dtype)
    shares = (pixels.numpy().astype(float) - column(LOW)) / (column(HIGH) - column(LOW))
    assert shares.min() < 0
    shares = shares if method == "minmax" else shares.clip(0, 1)
    found = used(method, dtype)(pixels)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, (shares - column(MEAN)) / column(STD), rtol=1e-5, atol=1e-5)


def test_by_mean_and_deviation():
    pixels = images("uint16")
    found = used("mean_std", mean=(500.0, 600.0, 700.0), std=(10.0, 20.0, 30.0))(pixels)
    wanted = (pixels.numpy() - column((500, 600, 700))) / column((10, 20, 30))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_small_range_of_large_numbers():
    normalize = Normalize((0.0,), (1.0,))
    normalize.use(Normalization("minmax", "float32", (100_000.0,), (100_001.0,)))
    pixels = torch.tensor([100_000.0, 100_000.25, 100_001.0]).view(1, 1, 1, 3)
    assert normalize(pixels).flatten().tolist() == [0, 0.25, 1]


@pytest.mark.parametrize("method", ["dtype", "percentile", "mean_std"])
def test_checkpoints_do_not_hold_it(method):
    """Those made with one kind of images load with another."""
    made = used(method, mean=(1.0,) * 3, std=(1.0,) * 3)
    assert made.state_dict() == {}


def test_the_usual_way_gives_the_same_bits_as_always():
    pixels = images("uint8")
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (MEAN, STD))
    wanted = (pixels.float() - mean * 255) / (std * 255)
    assert torch.equal(used("dtype", "uint8")(pixels), wanted)
