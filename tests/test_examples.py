"""What is trained on instead of data."""

from types import SimpleNamespace

import pytest
import torch

from hires.examples import OBJECTS, Examples, examples_of
from hires.interfaces import Batch, DataLimits
from hires.learner import make_task
from tests.recipes import small_recipe


class Source:
    """Images of these sizes; in a window of up to 128 x 128 pixels one object, in any larger one five."""

    classes = ("a", "b", "c")

    def __init__(self, *sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def size(self, index):
        return self.sizes[index]

    def targets(self, window):
        return SimpleNamespace(most_objects=lambda size: 1 if size and max(size) <= 128 else 5)


@pytest.mark.parametrize(("model", "notes"), [("fpn", 0), ("fcos", 1)])
def test_without_data_there_are_as_many_classes_as_said(model, notes):
    found, told = examples_of(small_recipe(f"model={model}"))
    assert found.classes == ("0", "1", "2")
    assert found.limits.max_objects == OBJECTS
    assert found.limits.max_shape == (0, 0)
    assert len(told) == notes


@pytest.mark.parametrize(("size", "objects"), [("image_size=128", 1), ("image_size=auto", 5)])
def test_data_says_how_large_images_are_and_how_many_objects_a_window_shows(size, objects):
    """Where the size is to be found, as many as there are in any image."""
    found, told = examples_of(small_recipe(size), Source((300, 500), (400, 200), (100, 100)))
    assert found.classes == Source.classes
    assert found.limits == DataLimits(objects, (300, 500))
    assert told == []


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
@pytest.mark.parametrize("model", ["fpn", "fcos"])
def test_the_samples_are_of_the_type_of_the_data_and_normalised_like_it(model, dtype):
    recipe = small_recipe(f"model={model}", "data.channels=5", "backbone.in_channels=5")
    examples = Examples(("a", "b", "c"), DataLimits(3, (99, 99), dtype))
    normalization = examples.normalization(recipe)
    assert normalization.method == ("dtype" if dtype == "uint8" else "percentile")
    task = make_task(recipe, examples.classes, training=None, load_pretrained=False, normalization=normalization)
    (sample,) = examples.samples(task, 1, (64, 64))
    assert sample.image.dtype == getattr(torch, dtype)
    assert sample.image.shape == (5, 64, 64)
    assert torch.isfinite(task.normalize(sample.image[None])).all()


def test_the_samples_are_of_the_size_that_is_asked_for():
    class Task:
        def example_batch(self, count, image_size, limits):
            assert limits == DataLimits(3, (9, 9))
            return Batch(torch.zeros(count, 3, *image_size, dtype=torch.uint8), [{"n": i} for i in range(count)])

    samples = Examples(("a", "b"), DataLimits(3, (9, 9))).samples(Task(), 2, (32, 64))
    assert [tuple(sample.image.shape) for sample in samples] == [(3, 32, 64)] * 2
    assert [sample.target for sample in samples] == [{"n": 0}, {"n": 1}]
