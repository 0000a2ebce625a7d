"""The knobs of memory, and the group `memory`."""

import pytest

from hires.interfaces import ConfigError
from hires.memory.settings import MemorySettings
from tests.recipes import small_recipe


def test_without_a_word_everything_is_kept_and_nothing_planned():
    settings = MemorySettings()
    assert (settings.activation_checkpointing, settings.budget, settings.maximize) == ("none", None, None)
    assert not small_recipe("memory=fixed", "micro_batch_size=null").to_be_planned


@pytest.mark.parametrize(
    "overrides",
    [
        ("memory=auto",),
        ("memory=fixed", "memory.maximize=batch"),
        ("memory=fixed", "memory.activation_checkpointing=auto"),
        ("memory=fixed", "micro_batch_size=auto"),
        ("memory=fixed", "image_size=auto"),
    ],
)
def test_any_auto_value_is_planned(overrides):
    assert small_recipe(*overrides).to_be_planned


def test_auto_leaves_the_policies_and_the_budget_open():
    memory = small_recipe("memory=auto").memory
    assert (memory.activation_checkpointing, memory.budget) == ("auto", "auto")
    assert memory.choices == ("none", "selective", "full", "full@2", "full@stage")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"choices": ()}, "choices: got"),
        ({"choices": ("none", "half")}, "memory.choices: got half"),
        ({"choices": ("auto",)}, "memory.choices: got auto"),
        ({"maximize": "size"}, "maximize: got 'size', allowed: batch, resolution, throughput or null"),
        ({"min_micro_batch": 0}, "min_micro_batch: got 0"),
        ({"budget": "8GB"}, "budget: got '8GB'"),
        ({"plan": 3}, "plan: got 3, allowed: text or null"),
        ({"scale_batch_size": "yes"}, "scale_batch_size: got 'yes', allowed: true or false"),
        ({"activation_checkpointing": {"stem": "auto"}}, "stem: got auto"),
        ({"offload_dir": " "}, "offload_dir: got ' '"),
    ],
)
def test_wrong_values(given, message):
    with pytest.raises(ConfigError) as told:
        MemorySettings(**given)
    assert message in str(told.value)
