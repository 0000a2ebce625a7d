"""Recipes of trainings, as commands read them."""

from functools import cache

from hydra import compose, initialize_config_dir

from hires.recipe import Recipe, read_recipe
from hires.request import config_dir

SMALL = (
    "memory=auto",
    "model=fpn",
    "backbone.name=test_resnet",
    "backbone.pretrained=false",
    "model.num_classes=3",
    "optimizer=sgd",
    "trainer.accelerator=cpu",
    "image_size=128",
    "batch_size=16",
    "micro_batch_size=null",
)


@cache
def small_recipe(*overrides: str) -> Recipe:
    """A training of a small network, whose plan is to be found."""
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        return read_recipe(compose("train", overrides=[*SMALL, *overrides]))
