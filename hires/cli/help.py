"""Writes `hires NAME --help`: the groups with their options and every knob with its default and comment."""

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hires.config_values import flow, keys_below, plain
from hires.request import Request

_EXAMPLES = {
    "train": (
        ("hires train experiment=demo", "the built-in demo, a few minutes on two CPU cores"),
        (
            "hires train data=mask_folder data.root=DIR 'data.classes={background: 0, crack: 255}'",
            "your own images and masks",
        ),
        ("hires train -m experiment=demo optimizer.lr=1e-3,3e-4 seed=0,1", "a sweep: four runs"),
    ),
    "evaluate": (
        ("hires evaluate run=runs/demo/2025-01-31_12-00-00", "the best checkpoint on the validation images"),
        ("hires evaluate run=RUN split=test checkpoint=last", "the last weights on the test images"),
        ("hires evaluate run=RUN evaluation.window=1024 evaluation.overlap=0.5", "larger windows"),
    ),
    "predict": (
        ("hires predict run=RUN source=DIR", "every image below a folder, into RUN/predict/DIR"),
        ("hires predict run=RUN source='photos/*.jpg' out=DIR checkpoint=last", "a glob, the last weights"),
        ("hires predict run=RUN source=scene.tif probabilities=true", "a GeoTIFF stays one"),
    ),
    "autobatch": (
        ("hires autobatch experiment=demo memory.budget=600MiB", "the largest micro-batch that fits"),
        ("hires autobatch experiment=demo memory.maximize=resolution", "the largest image size, here and now"),
        (
            "hires autobatch experiment=demo memory.device=cuda memory.budget=8GiB memory.maximize=throughput",
            "the fastest plan, for a GPU that need not be there",
        ),
    ),
    "profile": (
        ("hires profile experiment=demo memory.measure=true", "what a step occupies, predicted and measured"),
        (
            "hires profile model=fpn model.num_classes=19 memory.device=cuda memory.budget=8GiB",
            "on a GPU that need not be there, without data; the cheapest policies that fit",
        ),
        ("hires profile -m experiment=demo memory.activation_checkpointing=none,full", "two policies"),
    ),
    "compare": (
        ("hires compare experiment=demo", "what activation checkpointing saves and costs"),
        (
            "hires compare experiment=demo 'settings={fp32: [], bf16: [trainer.precision=bf16-mixed]}' steps=50",
            "two precisions, 50 steps of each",
        ),
        ("hires compare runs=[RUN,RUN]", "two finished runs: what they were made with, and what came of it"),
    ),
    "export": (
        ("hires export run=runs/demo/2025-01-31_12-00-00", "the best checkpoint as ONNX, for images of any size"),
        ("hires export run=RUN output=classes input_type=uint8 out=model.onnx", "8-bit pixels to class indices"),
        ("hires export run=RUN format=torch_export dynamic=false image_size=[512,768]", "torch.export, one size"),
    ),
    "report": (
        ("hires report run=runs/demo/2025-01-31_12-00-00", "report.html of a run, in seconds"),
        ("hires report run=RUN log_level=warning", "the same without a word"),
        ("hires report -m run=RUN,RUN", "of two runs"),
    ),
    "check-data": (
        ("hires check-data experiment=hrf_vessels data_dir=DIR", "the data set of an experiment"),
        (
            "hires check-data data=mask_folder data.root=DIR 'data.classes={background: 0, crack: 255}'",
            "your own images and masks",
        ),
        (
            "hires check-data data=yolo data.root=DIR data.fit=resize image_size=640",
            "your own boxes; what becomes of small objects when whole images are resized to 640",
        ),
    ),
}

_FLAGS = (
    ("-m", "run once for every combination of comma-separated values"),
    ("-m hydra/launcher=submitit_slurm", "the same, each run a job of SLURM; submitit_local: each a process here"),
    ("--config-dir DIR", "also look for options in DIR, for example DIR/experiment/mine.yaml"),
    ("--cfg job", "print the composed configuration instead of running (-p trainer: a part of it)"),
    ("--info defaults", "print which files it is composed of"),
    ("--hydra-help", "more flags, of Hydra itself"),
)

_QUOTES = (
    "A text with a comma needs inner quotes, since -m sweeps over several values: data.root='\"/data/a,b\"'. "
    "A key that is not there yet, in a mapping that takes any, needs a +: +optimizer.arguments.amsgrad=true."
)


def overview(commands: dict[str, str]) -> str:
    """What `hires` alone prints: one line a command."""
    width = max(map(len, commands))
    lines = [f"  {name:{width}}  {text}" for name, text in commands.items()]
    tail = ["", "hires NAME --help shows its options. hires --version prints the version."]
    return "\n".join(["hires NAME [GROUP=OPTION ...] [KEY=VALUE ...]", "", *lines, *tail])


def command_help(request: Request, summary: str) -> str:
    """The whole help of a command, with the choices that were made on its command line."""
    cfg = request.compose(request.overrides)
    chosen = {str(k): v for k, v in cfg.hydra.runtime.choices.items() if "/" not in str(k)}
    own = plain(cfg)
    own.pop("hydra")
    comments = comments_of(request)
    knobs = dict(_knobs(own, comments))
    options = {group: names for group, names in request.groups().items() if group in chosen and len(names) > 0}
    usage = f"hires {request.command} {'[GROUP=OPTION ...] ' if options else ''}[KEY=VALUE ...] [FLAGS]"
    sections = [summary, "", f"Usage: {usage}", "", "Examples:"]
    for line, text in _EXAMPLES[request.command]:
        sections += [f"  {line}", f"      {text}"]
    sections += ["", "Flags:", *(line for flag, text in _FLAGS for line in _entry(flag, text))]
    if options:
        sections += ["", "Groups (* chosen):", *_group_lines(request, options, chosen)]
    sections += ["", "Knobs:", *(line for k, v in knobs.items() for line in _knob(k, v, comments))]
    sections += _further(request, options, set(keys_below(own)))
    return "\n".join([*sections, "", *textwrap.wrap(_QUOTES, _width())])


def comments_of(request: Request) -> dict[str, str]:
    """Dotted key: the comment above it, over every file of the composition; that of the command goes first."""
    found: dict[str, str] = {}
    for config, package in sorted(request.parts(request.overrides), key=lambda p: p[0] == request.config_name):
        path = request.file(config)
        if path:
            _, comments, _ = read_comments(path)
            prefix = f"{package}." if package else ""
            found.update({prefix + key: text for key, text in comments.items() if text})
    return found


def read_comments(path: Path) -> tuple[str, dict[str, str], dict[str, str]]:
    """A YAML file's header comment, its keys with their comments, and its keys with their values as text.

    The first comment of a file is its header and belongs to no key.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if not line.startswith("# @package")), 0)
    header = lines[start][1:].strip() if lines and lines[start].startswith("#") else ""
    comments: dict[str, str] = {}
    values: dict[str, str] = {}

    def walk(node: Any, prefix: str) -> None:
        for key, value in node.value:
            if key.value.startswith("_") or (not prefix and key.value in ("defaults", "hydra")):
                continue
            name = prefix + key.value
            comments[name] = _above(lines, key.start_mark.line, start + 1 if header else start)
            if isinstance(value, yaml.MappingNode) and value.value:
                walk(value, name + ".")
            else:
                values[name] = text[value.start_mark.index : value.end_mark.index].strip()

    root = yaml.compose(text)
    if isinstance(root, yaml.MappingNode):
        walk(root, "")
    return header, comments, values


def _above(lines: list[str], line: int, first: int) -> str:
    """The comment lines directly above a line, joined."""
    top = line
    while top > first and lines[top - 1].lstrip().startswith("#"):
        top -= 1
    return " ".join(text.strip().lstrip("#").strip() for text in lines[top:line])


def _knobs(node: dict[Any, Any], comments: dict[str, str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, its value as YAML); a mapping with knobs of its own is a heading without a value."""
    for key, value in node.items() if prefix else sorted(node.items(), key=_is_mapping):
        name = f"{prefix}{key}"
        if str(key).startswith("_"):
            continue
        has_knobs = not prefix or any(known.startswith(f"{name}.") for known in comments)
        if isinstance(value, dict) and value and (has_knobs or "_target_" in value):
            yield name, ""
            yield from _knobs(value, comments, f"{name}.")
        else:
            yield name, (value or '""') if isinstance(value, str) else flow(value)


def _is_mapping(item: tuple[Any, Any]) -> bool:
    return isinstance(item[1], dict)


def _knob(key: str, value: str, comments: dict[str, str]) -> list[str]:
    comment = comments.get(key, "")
    if not value:
        return _entry(f"{key}:", comment) if comment else []
    return _entry(f"{key}={value}", comment)


def _entry(head: str, text: str) -> list[str]:
    return [*_wrapped(head, "  ", "    "), *_wrapped(text, "      ", "      ")]


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text,
        _width(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _group_lines(request: Request, options: dict[str, list[str]], chosen: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for group, names in options.items():
        for name in names:
            path = request.file(f"{group}/{name}")
            header = read_comments(path)[0] if path else ""
            lines += _entry(f"{group}={name}{' *' if chosen.get(group) == name else ''}", header)
    return lines


def _further(request: Request, options: dict[str, list[str]], known: set[str]) -> list[str]:
    """Knobs that only options bring which are not chosen; those that several share stand together, once."""
    lines: list[str] = []
    for group, names in options.items():
        for path, users in _sharing(request, group, names if group != "experiment" else []).items():
            _, comments, values = read_comments(path)
            new = {key: value for key, value in values.items() if f"{group}.{key}" not in known}
            known |= {f"{group}.{key}" for key in new}
            if new:
                lines += ["", *textwrap.wrap(f"Further knobs with {group}={', '.join(users)}:", _width())]
            for key, value in new.items():
                lines += _entry(f"{group}.{key}={' '.join(value.split())}", comments[key])
    return lines


def _sharing(request: Request, group: str, names: list[str]) -> dict[Path, list[str]]:
    """The files of a group's options, and of what they build on, with the options that have each; most first."""
    users: dict[Path, list[str]] = {}
    for name in names:
        for path in _files(request, group, name):
            users.setdefault(path, []).append(name)
    return dict(sorted(users.items(), key=lambda item: -len(item[1])))


def _files(request: Request, group: str, name: str) -> Iterator[Path]:
    """The file of an option, and those of the same group that its defaults name."""
    path = request.file(f"{group}/{name}")
    if path is None:
        return
    yield path
    for entry in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("defaults", []):
        if isinstance(entry, str) and entry != "_self_":
            yield from _files(request, group, entry)


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns, 60), 120)
