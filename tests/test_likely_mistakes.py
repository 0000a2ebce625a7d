"""What goes wrong in a first hour: one line that names the key or file, what is wrong, and what to do."""

from pathlib import Path

import pytest


@pytest.fixture
def train(hires, shapes_overrides, monkeypatch, tmp_path):
    """The line that a training ends with: train(code, *overrides), which replace those of `shapes`."""
    monkeypatch.chdir(tmp_path)

    def run(code: int, *more: str) -> str:
        keys = {override.partition("=")[0] for override in more}
        usual = [one for one in shapes_overrides if one.partition("=")[0] not in keys]
        return one_line(hires("train", *usual, *more), code)

    return run


def one_line(outcome: tuple[int, str, str], code: int) -> str:
    actual, _, error = outcome
    assert actual == code, error
    assert "Traceback" not in error
    return error.strip().splitlines()[-1]


MISTAKES = {
    # the data
    "a root that is not there": (1, ["data.root=nowhere"], "nowhere: no such folder below {here}; point data"),
    "a glob that matches nothing": (
        1,
        ["data.images=pictures/*.png"],
        "{shapes}: no file matches data.images='pictures/*.png' (upper and lower case differ); "
        "{shapes} has images, masks",
    ),
    "masks that are called otherwise": (
        1,
        ["data.images=*/*.png", "data.masks=masks/*.png"],
        "image(s) without mask: images/0.png",
    ),
    "a validation glob that matches nothing": (
        1,
        ["data.splits={val: images/9.png}", "evaluation.every=1"],
        "split 'val' has no image (val 0, train 6), by data.splits.val=images/9.png; change data.splits, or set "
        "data.splits.val=null",
    ),
    "a split that has another name": (
        2,
        ["data.splits={valid: images/5.png}"],
        "data.splits.valid: no such key; did you mean data.splits.val?",
    ),
    "more classes than there are": (
        2,
        ["model.num_classes=5"],
        "model.num_classes: got 5, but the data has 3: background, disc, bar; leave it out, or correct data",
    ),
    "a path of Windows": (1, [r"data.root=C:\data\my set"], r"C:\data\my set: no such folder below {here}; point"),
    "a path with brackets": (
        1,
        [r"data.root=C:\Users\me (x)\set"],
        r"C:\Users\me (x)\set: no such folder below {here}; point",
    ),
    # words
    "a misspelt key": (2, ["batchsize=4"], "batchsize: no such key; did you mean batch_size?"),
    "a key without its group": (2, ["lr=0.1"], "lr: no such key; did you mean optimizer.lr?"),
    "a misspelt option": (2, ["augmentation=lite"], "augmentation: got lite; did you mean augmentation=light?"),
    "dashes": (2, ["--batch_size", "4"], "--batch_size: no such flag; "),
    "a blank for =": (2, ["batch_size", "4"], "batch_size: got no value; write KEY=VALUE"),
    "a mapping that the shell has split": (
        2,
        ["data.classes={background:", "0}"],
        "data.classes: got {background:, which cannot be read; are all brackets and quotes closed? "
        "A shell splits at blanks: quote all of it, 'data.classes=...'",
    ),
    "a text for a number": (2, ["optimizer.lr=1e-3x"], "optimizer.lr: got '1e-3x', allowed: a number"),
    # sizes
    "a size without brackets": (2, ["image_size=64,64"], "image_size: got 64,64, several values; -m sweeps over"),
    # runs
    "a run that is not there": (
        1,
        ["resume=runs/nope"],
        "runs/nope: not a run directory, there is no such folder below {here}; give one that `hires train` made",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(train, shapes, tmp_path, mistake):
    code, overrides, told = MISTAKES[mistake]
    line = train(code, *(one.replace("{shapes}", str(shapes)) for one in overrides))
    assert told.replace("{here}", str(tmp_path)).replace("{shapes}", str(shapes)) in line
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_directory_that_holds_a_run(train, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("data: {}\n")
    run = tmp_path / "run"
    assert train(2) == f"run_dir: {run} holds a run already; use resume={run}, or another directory"


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["evaluate"], 2, "run: must be given, for example run=runs/"),
        (["evaluate", "run=nope"], 1, "nope: not a run directory, there is no such folder below {here}"),
        (["predict", "run=nope", "source=x"], 1, "nope: not a run directory, there is no such folder"),
        (["trian"], 2, "trian: no such command; did you mean train? allowed: train, evaluate"),
    ],
)
def test_other_commands(hires, monkeypatch, tmp_path: Path, command, code, told):
    monkeypatch.chdir(tmp_path)
    assert told.replace("{here}", str(tmp_path)) in one_line(hires(*command), code)
