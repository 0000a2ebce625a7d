"""Policies in words: what they mean for each unit, and what is said when they cannot be meant."""

import pytest
import torch
from blocks import Trunk, batch_norm
from torch import nn

from hires.interfaces import ConfigError
from hires.memory.policies import check_policies, parse_policy, policies_of, segments_of
from hires.memory.units import Unit, find_units
from hires.memory.verify import differing_units

UNITS = [Unit("stem", "stem", ("a",)), *(Unit(f"stage1.{i}", "stage1", (f"b.{i}",)) for i in range(5))]


def said(policies):
    chosen = policies_of(policies, UNITS)
    return {unit.name: str(chosen[unit.name]) for unit in UNITS}


def test_one_policy_for_all():
    assert set(said("selective").values()) == {"selective"}


def test_units_go_before_ranges_and_ranges_before_stages():
    assert said({"stage1.2": "offload", "stage1": "full", "stage1.1-3": "full@2"}) == {
        "stem": "none",
        "stage1.0": "full",
        "stage1.1": "full@2",
        "stage1.2": "offload",
        "stage1.3": "full@2",
        "stage1.4": "full",
    }


def test_the_order_in_which_they_are_said_does_not_matter():
    assert said({"stage1.0-4": "full", "stage1": "none"})["stage1.0"] == "full"
    assert said({"stage1": "none", "stage1.0-4": "full"})["stage1.0"] == "full"


@pytest.mark.parametrize(
    ("policy", "segments"),
    [
        ("full", ["0", "1", "2", "3", "4"]),
        ("full@2", ["0 to 1", "0 to 1", "2 to 3", "2 to 3", "4"]),
        ("full@stage", ["0 to 4"] * 5),
    ],
)
def test_segments(policy, segments):
    found = segments_of(policies_of({"stage1": policy}, UNITS), UNITS)
    named = [name.replace("stage1.", "") for name in list(found.values())[1:]]
    assert named == segments


def test_a_segment_ends_where_another_policy_begins():
    chosen = policies_of({"stage1": "full@stage", "stage1.2": "none"}, UNITS)
    found = segments_of(chosen, UNITS)
    assert found["stage1.0"] == found["stage1.1"] != found["stage1.3"] == found["stage1.4"]


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (
            "ful",
            "activation_checkpointing: got ful, allowed: none, selective, full, offload, full@stage, full@2",
        ),
        ("full@0", "memory.activation_checkpointing: got full@0"),
        ({"stage1": "x"}, "memory.activation_checkpointing.stage1: got x"),
        ({"stage2": "full"}, "memory.activation_checkpointing.stage2: no such stage; did you mean stage1"),
        ({"Stage1": "full"}, "the model has: stem, stage1"),
        ({"stage1.5": "full"}, "stage1.5: no such unit; stage1 has: stage1.0, stage1.1"),
        ({"stage1.3-1": "full"}, "no such unit"),
        ({"stage1.0-9": "full"}, "no such unit"),
    ],
)
def test_what_cannot_be_meant(policies, message):
    def read():
        check_policies(policies)
        policies_of(policies, UNITS)

    with pytest.raises(ConfigError) as error:
        read()
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["none", "selective", "full", "offload", "full@stage", "full@3"])
def test_policies_are_written_as_they_are_read(text):
    assert str(parse_policy(text)) == text


def test_units_of_a_model_hold_every_parameter_once():
    trunk = Trunk(batch_norm(0.1))
    units = find_units(trunk, trunk.stages())
    assert [unit.name for unit in units] == ["stem", "stage1.0", "stage1.1", "stage1.2", "stage1.3", "head"]
    held = [p for unit in units for name in unit.modules for p in trunk.get_submodule(name).parameters()]
    assert len(held) == len(set(held)) == len(list(trunk.parameters()))


def test_a_shared_module_belongs_to_its_first_stage():
    shared = nn.Conv2d(3, 3, 1)
    root = nn.Module()
    root.one, root.two, root.three = shared, shared, nn.Conv2d(3, 3, 1)
    units = find_units(root, {"head": ("one", "three"), "loss": ("two",)})
    assert [unit.name for unit in units] == ["head"]


class OwnRandom(nn.Module):
    """Random numbers that torch does not know of, and a cache."""

    def __init__(self):
        super().__init__()
        self.conv, self.generator, self.cache = nn.Conv2d(8, 8, 1), torch.Generator(), None

    def forward(self, x):
        if self.cache is None:
            self.cache = x.detach()
        noise = torch.rand(x.shape, generator=self.generator)
        return self.conv(x) * noise


def test_verify_names_the_unit_and_what_differs():
    trunk = Trunk(batch_norm(None))
    trunk.blocks[2] = OwnRandom()
    before = {name: value.clone() for name, value in trunk.state_dict().items()}
    random = torch.get_rng_state()
    found = differing_units(trunk, find_units(trunk, trunk.stages()), lambda: trunk(torch.randn(2, 3, 16, 16)))
    assert list(found) == ["stage1.2"]
    assert "blocks.2: saved tensor" in found["stage1.2"]
    assert "other values" in found["stage1.2"]
    assert all(torch.equal(value, before[name]) for name, value in trunk.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert "forward" not in trunk.blocks[2].__dict__


class Cached(OwnRandom):
    """A running mean in an attribute."""

    def forward(self, x):
        mean = x.detach().mean()
        self.cache = mean if self.cache is None else 0.9 * self.cache + 0.1 * mean
        return self.conv(x) * self.cache


def test_verify_finds_cached_state():
    trunk = Trunk(batch_norm(None))
    trunk.blocks[2] = Cached()
    found = differing_units(trunk, find_units(trunk, trunk.stages()), lambda: trunk(torch.randn(2, 3, 16, 16)))
    assert list(found) == ["stage1.2"]


def test_verify_finds_nothing_in_what_is_repeatable():
    trunk = Trunk(batch_norm(0.1))
    assert not differing_units(trunk, find_units(trunk, trunk.stages()), lambda: trunk(torch.randn(2, 3, 16, 16)))
