"""What a documented command becomes in a test: paths that are there, and a training of seconds."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from hires.cli.errors import readable
from hires.request import Request, parse
from tests.conftest import REAL_DATA
from tests.docs.data_sets import SETS, make
from tests.docs.pages import NOT_RUN, Command

ELSEWHERE = ("make", "git", "pip", "cd", "docker", "pytest")
"""Programs that are not run here: other tests do, or they install something."""

TRAINING: dict[str, Any] = {
    "trainer.max_steps": 2,
    "trainer.devices": 1,
    "trainer.strategy": "auto",
    "trainer.accelerator": "cpu",
    "scheduler.warmup_steps": 1,
    "image_size": 64,
    "batch_size": 2,
    "memory.choices": "[none,full]",
    "backbone.name": "test_resnet",
    "backbone.pretrained": "false",
    "evaluation.window": 128,
    "evaluation.every": "null",
    "data.windows_per_epoch": 4,
    "data.workers": 0,
    "data.generator.size": 256,
    "data.generator.train": 2,
    "data.generator.val": 1,
    "data.generator.test": 1,
    "model.neck.channels": 64,
    "model.head_convs": 1,
    "steps": 1,
    "measure_memory": "false",
}
"""Values that make a training take seconds, as far as its configuration has their keys."""

SHRUNK: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("train", "autobatch", "profile", "compare", "check-data"), TRAINING),
    **dict.fromkeys(("evaluate", "predict", "report", "export"), {}),  # as small as the run is
}
"""By command, what is appended to its overrides."""

REAL = {
    "hrf_vessels": (
        "data.splits.train=training/images/03_g.jpg",
        "data.splits.val=test/images/07_h.jpg",
        "data.splits.test=test/images/07_h.jpg",
    ),
    "aerial_cars": (),
}
"""Experiments on ../shared/data that are run, with what makes them short."""

CLASSES = "data.classes={ground: 0, water: 1, roof: 2, road: 3}"
"""Of the masks that lines of overrides are about which do not name any."""


PACKAGES = {"export": "onnxruntime"}
"""Commands that need a package which a smaller installation lacks."""


class Absent(Exception):
    """What a command needs is not on this machine."""


def known(command: Command) -> str | None:
    """The command that a line calls, None for what is not run here. Raises AssertionError for what is neither."""
    first, *rest = command.words or [""]
    if first in ELSEWHERE:
        return None
    name = rest[0] if first == "hires" and rest else ""
    if first == "python" and rest and rest[0].startswith("tools/"):
        name = Path(rest[0]).stem.replace("_", "-")
    if name in SHRUNK or name.startswith("-"):
        return name
    say = f"put {NOT_RUN} in the line above its block, or say in {__name__} how it becomes small"
    raise AssertionError(f"{command}\n`{name or first}` is not known to the tests of the documentation: {say}")


def completed(command: Command) -> list[str]:
    """The overrides of a command; of overrides alone, with the data or the network that they need."""
    words = command.words[2:]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    if not command.bare:
        return words
    if "data" in given:
        segments = given["data"].endswith("masks") and given["data"] != "instance_masks"
        return words if segments or "model" in given else ["model=fcos", *words]
    root = "/data/scenes" if {"data.bands", "data.channels"} & set(given) else "/data/maps"
    masks = ("data=mask_folder", f"data.root={root}", CLASSES)
    return [*(word for word in masks if word.partition("=")[0] not in given), *words]


def single(request: Request) -> list[str]:
    """The overrides of the first job of a sweep."""
    return [
        f"{o.get_key_element()}={next(o.sweep_string_iterator())}" if o.is_sweep_override() else o.input_line or ""
        for o in readable(request)
    ]


def composed(name: str, words: list[str]) -> DictConfig:
    request = parse(name, words)
    return request.compose(single(request))


def shrunk(name: str, words: list[str]) -> list[str]:
    """The words of a command, with overrides appended that make it short."""
    if any(word.startswith("run_config=") or word in ("--help", "-h") for word in words):
        return words
    words = ["hydra/launcher=basic" if word.startswith("hydra/launcher=") else word for word in words]
    if not SHRUNK[name]:
        return words
    cfg = composed(name, words)
    experiment = cfg.hydra.runtime.choices.get("experiment")
    values = {key: value for key, value in SHRUNK[name].items() if _has(cfg, key)}
    if OmegaConf.select(cfg, "image_size") == "auto":
        del values["image_size"]
    if name == "train" and not any(word.startswith(("memory", "micro_batch_size=auto")) for word in words):
        values |= {
            "micro_batch_size": "null",
            "memory.activation_checkpointing": "none",
        }  # searching is told apart
    if isinstance(OmegaConf.select(cfg, "micro_batch_size"), int):
        values["micro_batch_size"] = 2
    if experiment in REAL:
        values |= {"evaluation.window": 1024, "evaluation.overlap": 0}
    return [*words, *(f"{key}={value}" for key, value in values.items()), *REAL.get(experiment, ())]


def _has(cfg: DictConfig, key: str) -> bool:
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(cfg, parent) if parent else cfg
    return OmegaConf.is_dict(node) and name in node


class Places:
    """The paths of one page's commands: a working folder, data sets, and the runs that were made before."""

    def __init__(self, folder: Path, sets: Path, train: Callable[[list[str]], None]):
        self.folder, self.sets = folder, sets
        self._train = train  # makes a run that a page takes for granted

    def resolved(self, name: str, words: list[str]) -> list[str]:
        """The overrides of a command with paths of this machine. Raises Absent."""
        if name in PACKAGES and find_spec(PACKAGES[name]) is None:
            raise Absent(f"{PACKAGES[name]} is not installed")
        words = [self._data(word) for word in words]
        if "--config-dir" in words:
            at = words.index("--config-dir") + 1
            words[at] = words[at].replace(
                "RUN", str(self._newest("runs/check-data")) if "RUN" in words[at] else ""
            )
        words = [self._runs(word) for word in words]
        for word in words:
            self._make_runs(word)
        return words

    def fill(self, name: str, words: list[str]) -> None:
        """Makes the data set that a command takes for granted in the working folder."""
        if SHRUNK[name] and not any(word.startswith("run_config=") for word in words):
            root = OmegaConf.select(composed(name, words), "data.root", throw_on_missing=False)
            if root and not Path(root).is_absolute() and Path(root).name in SETS:
                make(Path(root).name, self.folder / root)

    def _data(self, word: str) -> str:
        if "../shared/data" in word:
            if not REAL_DATA.is_dir():
                raise Absent("../shared/data is not there")
            return word.replace("../shared/data", str(REAL_DATA))
        for name in re.findall(r"(?<![\w.])/data/(\w+)", word):
            assert name in SETS, f"/data/{name} is none of the sets in tests/docs/data_sets.py: {', '.join(SETS)}"
            make(name, self.sets / name)
        return re.sub(r"(?<![\w.])/data/(?=\w)", f"{self.sets}/", word)

    def _runs(self, word: str) -> str:
        for text in re.findall(r"runs/[\w-]+/(?:<timestamp>|NAME)", word):
            word = word.replace(text, str(self._newest(text.rpartition("/")[0])))
        if re.search(r"(?<!\w)RUN(?!\w)", word):
            word = re.sub(r"(?<!\w)RUN(?!\w)", str(self._last()), word)
        return word

    def _newest(self, parent: str) -> Path:
        found = [path for path in (self.folder / parent).glob("*") if path.is_dir()]
        if not found:
            raise Absent(f"{parent} is empty, since what fills it was left out")
        return max(found, key=lambda path: path.stat().st_mtime_ns)

    def _last(self) -> Path:
        """The run that was trained last, or a new one."""
        found = list(self.folder.rglob("checkpoints"))
        if not found:
            self._train(["experiment=demo", "run_dir=runs/demo/first"])
            return self.folder / "runs/demo/first"
        return max(found, key=lambda path: (path.parent / "config.yaml").stat().st_mtime_ns).parent

    def _make_runs(self, word: str) -> None:
        """Trains the runs that a word names by a path, where they are not there."""
        key, _, value = word.partition("=")
        if key not in ("run", "runs", "run_config", "resume", "init_from") or value == "auto":
            return
        for path in value.strip("[]").split(","):
            run = Path(path.removesuffix("/config.yaml"))
            if not (self.folder / run).exists():
                self._train(["experiment=demo", f"run_dir={run}"])
