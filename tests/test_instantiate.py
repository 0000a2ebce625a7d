"""Targets: what may be built from a config, what is refused, and what the messages name."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from hires.errors import ConfigError
from hires.instantiate import allowed_on_command_line, check, instantiate

MALICIOUS = [
    "os.system",
    "hires.data.images.os.system",
    "hires.instantiate.os.system",
    "hires.instantiate.sys.modules",
    "hires.instantiate.instantiate",
    "hires.settings.Any",
    "hires.errors.Exception",
    "builtins.eval",
    "builtins.exec",
    "torch.hub.load",
    "torch.load",
    "torch.os.system",
    "torch.nn.Linear",
    "torch.utils.data.DataLoader",
    "albumentations.load",
    "albumentations.Compose.__init__.__globals__",
    "timm.create_model",
    "subprocess.Popen",
    "pathlib.Path",
    "hires_evil.Class",
    "hires",
    "hires.",
    "hires..errors.ConfigError",
    "",
]


def node(target: Any, **parameters: Any) -> Any:
    return OmegaConf.create({"_target_": target, **parameters})


@pytest.mark.parametrize("target", MALICIOUS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda bad: bad,
        lambda bad: {"parts": [{"deep": [bad]}]},
        lambda bad: {"_target_": "albumentations.Compose", "transforms": [bad]},
        lambda bad: {"_target_": "albumentations.Compose", "_args_": [[bad]]},
        lambda bad: {"_target_": "torch.optim.AdamW", "_partial_": True, "params": bad},
    ],
    ids=["plain", "list", "transforms", "args", "partial"],
)
@pytest.mark.parametrize("how", [{}, {"_partial_": True}], ids=["call", "deferred"])
def test_what_is_not_allowed_does_nothing(target: str, wrap: Any, how: dict[str, Any], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    bad = {"_target_": target, "_args_": [f"touch {trace}"], **how}
    with pytest.raises(ConfigError, match="_target_"):
        instantiate(OmegaConf.create(wrap(bad)), "part")
    assert not trace.exists()


def test_a_target_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"part\._target_: 3 is not allowed"):
        instantiate(node(3), "part")


def test_an_interpolated_target_is_checked_after_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIL", "os.system")
    with pytest.raises(ConfigError, match=r"'os\.system' is not allowed"):
        instantiate(node("${oc.env:EVIL}", command="true"), "part")


def test_nothing_outside_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="not allowed"):
        instantiate(node("stranger.Thing"), "part")
    assert "stranger" not in sys.modules


def test_library_classes_are_built() -> None:
    compose = instantiate(
        node("albumentations.Compose", transforms=[{"_target_": "albumentations.D4", "p": 0.5}]), "x"
    )
    assert type(compose).__name__ == "Compose"
    assert compose.transforms[0].p == 0.5
    loss = instantiate(node("torch.nn.CrossEntropyLoss", label_smoothing=0.1), "x")
    assert loss.label_smoothing == 0.1
    made = instantiate(node("torch.optim.SGD", _partial_=True, lr=0.1), "x")
    assert isinstance(made, partial)
    assert made.keywords == {"lr": 0.1}


def test_a_logger_is_built_with_resolved_values(tmp_path: Path) -> None:
    cfg = OmegaConf.create(
        {
            "run_dir": str(tmp_path),
            "csv": {"_target_": "lightning_fabric.loggers.CSVLogger", "root_dir": "${run_dir}"},
        }
    )
    assert instantiate(cfg.csv, "csv").root_dir == str(tmp_path)


def test_containers_become_plain() -> None:
    made = instantiate(OmegaConf.create({"a": [1, {"b": [2]}], "c": None}), "x")
    assert made == {"a": [1, {"b": [2]}], "c": None}
    assert type(made["a"]) is list
    assert type(made["a"][1]) is dict
    assert instantiate(None, "x") is None


SETTINGS = """
from dataclasses import dataclass
from typing import Annotated
from hires.settings import Bounds, Settings

@dataclass(frozen=True)
class Loop(Settings):
    max_steps: Annotated[int, Bounds(1)] | None = None
    name: str = "a"
    table: dict[str, int] | None = None
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's own, `mypackage.parts.Loop`."""
    folder = tmp_path / "mypackage"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "parts.py").write_text("import os\n" + SETTINGS)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mypackage", "mypackage.parts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "mypackage.parts.Loop"


ALLOW = ("mypackage.",)


def test_a_package_can_be_allowed(package: str) -> None:
    with pytest.raises(ConfigError, match="not allowed"):
        instantiate(node(package), "trainer")
    assert instantiate(node(package, max_steps=5), "trainer", ALLOW).max_steps == 5
    assert instantiate(node(package), "trainer", ("mypackage",)).max_steps is None
    for useless in ("", ".", "my", "other."):
        with pytest.raises(ConfigError, match="not allowed"):
            instantiate(node(package), "trainer", (useless,))


def test_an_allowed_package_does_not_allow_what_it_imports(package: str) -> None:
    with pytest.raises(ConfigError, match="not allowed"):
        instantiate(node("mypackage.parts.os.system", command="false"), "trainer", ALLOW)


def test_a_wrong_value_names_key_given_and_allowed(package: str) -> None:
    with pytest.raises(ConfigError) as caught:
        instantiate(node(package, max_steps="abc"), "trainer", ALLOW)
    assert str(caught.value) == "trainer.max_steps: got 'abc', allowed: a whole number >= 1 or null"


def test_an_unknown_key_names_the_nearest_and_the_allowed(package: str) -> None:
    for call in (instantiate, check):
        with pytest.raises(ConfigError) as caught:
            call(node(package, max_stepz=5), "trainer", ALLOW)
        assert str(caught.value) == (
            "trainer.max_stepz: no such key; did you mean trainer.max_steps? "
            "allowed in trainer: max_steps, name, table"
        )


def test_an_open_mapping_takes_any_key(package: str) -> None:
    assert instantiate(node(package, table={"b": 1}), "trainer", ALLOW).table == {"b": 1}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("albumentations.D4", q=1), r"x\.q: no such key; allowed in x: p"),
        (node("albumentations.D4", p="abc"), r"x\.p: got 'abc': Input should be a valid number"),
        (node("albumentations.D4", p=7), r"x\.p: got 7: Input should be less than or equal to 1"),
        (node("albumentations.RandomCrop"), r"x\.height: must be given"),
        (node("lightning_fabric.loggers.CSVLogger"), r"x\.root_dir: must be given"),
        (node("albumentations.D4", p="???"), r"x\.p: must be given"),
        (node("albumentations.D4", p="${nope}"), r"x\.p: Interpolation key 'nope' not found"),
        (node("albumentations.HueSaturationValu"), "did you mean albumentations.HueSaturationValue"),
        (node("hires.engine.nothing.Here"), r"x\._target_: hires\.engine\.nothing does not exist"),
        (OmegaConf.create([{"_target_": "albumentations.D4", "q": 1}]), r"x\.0\.q: no such key"),
    ],
)
def test_messages(made: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        instantiate(made, "x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train"], ()),
        (["train", "allow_targets=[a.,b.]"], ("a.", "b.")),
        (["train", "++allow_targets=[a.]", "seed=1"], ("a.",)),
        (["train", "allow_targets=a."], ("a.",)),
        (["train", "allow_targets=[]"], ()),
        (["train", "experiment=allow_targets"], ()),
    ],
)
def test_only_the_command_line_allows(
    arguments: list[str], expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["hires", *arguments])
    assert allowed_on_command_line() == expected
