"""docs/defaults.md has every key of a training of masks, with the default that it has."""

import re
from typing import Any

import yaml
from omegaconf import OmegaConf

from hires.request import parse
from tests.conftest import REPOSITORY

GIVEN = ["data=mask_folder", "data.root=/data/maps", "data.classes={ground: 0}"]
_ROW = re.compile(r"^\| `([\w.]+)` \| `(.*?)` \| (.+) \|$", re.MULTILINE)


def leaves(node: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted keys and values; what is given and names of classes are no defaults."""
    found: dict[str, Any] = {}
    for name, value in node.items():
        key = f"{prefix}{name}"
        if key in ("hydra", "data.root", "data.classes") or name == "_target_":
            continue
        found |= leaves(value, f"{key}.") if isinstance(value, dict) and value else {key: value}
    return found


def test_every_default_is_in_the_table() -> None:
    actual = leaves(OmegaConf.to_container(parse("train", GIVEN).compose(GIVEN), resolve=False))
    page = (REPOSITORY / "docs" / "defaults.md").read_text(encoding="utf-8")
    said = {key: yaml.safe_load(text) for key, text, _ in _ROW.findall(page)}
    assert said == actual
