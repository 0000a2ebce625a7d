"""docs/dependencies.md has every dependency, and each is used where the page says."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

IMPORTED = {
    "segmentation-models-pytorch": "segmentation_models_pytorch",
    "lightning-fabric": "lightning_fabric",
    "hydra-core": "hydra",
    "pyyaml": "yaml",
    "opencv-python-headless": "cv2",
    "faster-coco-eval": "faster_coco_eval",
    "pillow": "PIL",
    "openslide-python": "openslide",
}
"""What is imported under another name."""
BY_OTHERS = {"tensorboard", "openslide-bin", "onnxscript", "hydra-submitit-launcher"}
"""What hires has others call."""
_ALWAYS = re.compile(r"^\| `([\w-]+)` \| (.*?) \| .+ \|$", re.MULTILINE)
_EXTRA = re.compile(r"^\| `(\w+)` \| `([\w-]+)` \| ?(.*?) \| .+ \|$", re.MULTILINE)
PAGE = (REPOSITORY / "docs" / "dependencies.md").read_text(encoding="utf-8")
ALWAYS, EXTRAS = PAGE.split("## Extras")
USED = {
    **dict(_ALWAYS.findall(ALWAYS)),
    **{package: places for _, package, places in _EXTRA.findall(EXTRAS)},
}


def names(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=]", text)[0] for text in requirements]


def test_every_dependency_is_in_the_table():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [package for package, _ in _ALWAYS.findall(ALWAYS)] == names(project["dependencies"])
    extras = {name: names(texts) for name, texts in project["optional-dependencies"].items() if name != "dev"}
    said: dict[str, list[str]] = {}
    for extra, package, _ in _EXTRA.findall(EXTRAS):
        said.setdefault(extra, []).append(package)
    assert said == extras


def imports(place: Path, module: str) -> bool:
    files = place.rglob("*.py") if place.is_dir() else [place]
    line = re.compile(rf"^\s*(import|from) {module}\b", re.MULTILINE)
    return any(line.search(file.read_text(encoding="utf-8")) for file in files)


@pytest.mark.parametrize("package", sorted(USED.keys() - BY_OTHERS))
def test_it_is_used_where_the_table_says(package):
    places = re.findall(r"`([\w/.]+)`", USED[package]) or [""]
    for place in places:
        assert imports(REPOSITORY / "hires" / place, IMPORTED.get(package, package)), place
