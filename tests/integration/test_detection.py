"""Detection through the command line, on a small data set: the same commands as segmentation."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

CLASSES = ("disc", "bar")


def write_image(root: Path, name: str, seed: int, height: int = 150, width: int = 200) -> None:
    """Bright discs and dark bars on noise, and their boxes as a YOLO file."""
    rng = np.random.default_rng(seed)
    image = rng.normal(110, 12, (height, width, 3)).clip(0, 255).astype(np.uint8)
    lines = []
    for cell in rng.permutation(12)[:5]:
        y, x = 25 + 48 * (cell // 4), 25 + 48 * (cell % 4)
        kind = int(rng.integers(2))
        half = (9, 9) if kind == 0 else (16, 5)
        if kind == 0:
            cv2.circle(image, (int(x), int(y)), 9, (230, 220, 200), -1)
        else:
            cv2.rectangle(image, (int(x) - 16, int(y) - 5), (int(x) + 15, int(y) + 4), (20, 30, 40), -1)
        box = (x / width, y / height, 2 * half[0] / width, 2 * half[1] / height)
        lines.append(f"{kind} " + " ".join(f"{value:.6f}" for value in box))
    cv2.imwrite(str(root / f"{name}.png"), image)
    (root / f"{name}.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def boxes(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("boxes")
    for index in range(7):
        write_image(root, str(index), index)
    (root / "5.txt").write_text("")  # an image without objects, says its file
    return root


@pytest.fixture
def overrides(boxes, tmp_path) -> list[str]:
    return [
        "data=yolo",
        f"data.root={boxes}",
        "data.images=*.png",
        "data.labels=*.txt",
        f"data.classes=[{','.join(CLASSES)}]",
        "data.splits={val: '[56].png'}",
        "data.workers=0",
        "model=fcos",
        "model.neck.levels=[2,3]",
        "model.neck.extra_levels=0",
        "model.neck.channels=64",
        "model.head_convs=1",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "image_size=64",
        "batch_size=4",
        "trainer.max_steps=4",
        "trainer.log_every=2",
        "trainer.accelerator=cpu",
        "scheduler.warmup_steps=1",
        "evaluation.every=null",
        f"run_dir={tmp_path / 'run'}",
    ]


@pytest.fixture
def run(hires, overrides, tmp_path):
    def train(*more: str) -> Path:
        code, _, error = hires("train", *overrides, *more)
        assert code == 0, error
        return tmp_path / "run"

    return train


@pytest.fixture
def trained(run, copied, tmp_path) -> Path:
    """A run of four steps."""
    return copied(tmp_path / "run", run)


def metrics(folder: Path) -> dict[str, float]:
    return json.loads((folder / "result.json").read_text())["metrics"]


def test_training_learns_and_evaluation_repeats_it(run, hires):
    run_dir = run("trainer.max_steps=150", "trainer.log_every=50", "optimizer.lr=0.003", "batch_size=8")
    trained = metrics(run_dir)
    assert trained["AP50"] > 0.5
    assert trained["empty_images"] == 1
    code, out, error = hires("evaluate", f"run={run_dir}", "checkpoint=last")
    assert code == 0, error
    assert metrics(run_dir / "evaluate" / "val-last") == trained
    assert "AP50" in out
    table = (run_dir / "evaluate" / "val-last" / "classes.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in table] == ["class", *CLASSES]


@pytest.mark.parametrize(
    "more",
    [
        ["evaluation.fit=resize", "evaluation.image_size=96"],
        ["evaluation.window=[96,64]", "evaluation.batch_size=3", "evaluation.overlap=0.5"],
        ["evaluation.merge=wbf", "evaluation.whole_image=true", "evaluation.tta=[hflip,vflip,0.5]"],
        ["evaluation.max_detections=3", "evaluation.score_threshold=0.0001", "evaluation.nms_iou=0.3"],
    ],
    ids=["resize", "windows", "fusion", "limits"],
)
def test_evaluate_with_other_settings(trained, hires, more):
    run_dir = trained
    code, _, error = hires("evaluate", f"run={run_dir}", *more)
    assert code == 0, error
    result = json.loads((run_dir / "evaluate" / "val-best" / "result.json").read_text())
    key, _, value = more[0].removeprefix("evaluation.").partition("=")
    assert str(result["evaluation"][key]).replace(" ", "") == value


@pytest.mark.parametrize(
    "more",
    [
        ["data.fit=resize"],
        ["data.mosaic=0.5", "data.scale=[0.5,2.0]", "augmentation=photometric"],
        ["data.window.negatives=0.3", "data.window.focus=0", "micro_batch_size=3", "trainer.precision=bf16-mixed"],
        ["data.window.focus_classes=[bar]", "data.window.min_visibility=0.9", "model.norm=group"],
    ],
    ids=["resize", "mosaic", "negatives", "focus"],
)
def test_other_training_samples(run, more):
    assert (run(*more) / "result.json").exists()


OTHERS = {
    "retinanet": ["model=retinanet", "model.anchors.fit=true", "model.head_norm=group"],
    "faster_rcnn": ["model=faster_rcnn", "model.regions.samples=16", "model.regions.hidden=32"],
}


def with_model(overrides: list[str], name: str) -> list[str]:
    """The overrides with another model than FCOS."""
    kept = [
        o for o in overrides if not o.startswith(("model=", "model.neck.levels", "model.neck.extra", "model.head"))
    ]
    return [*kept, *OTHERS[name]]


@pytest.mark.parametrize("name", OTHERS)
def test_other_detectors(hires, overrides, tmp_path, name):
    given = with_model(overrides, name)
    code, _, error = hires("train", *given, "trainer.max_steps=2", "micro_batch_size=3", "evaluation.window=96")
    assert code == 0, error
    trained = metrics(tmp_path / "run")
    assert trained["AP50"] >= 0
    code, _, error = hires("evaluate", f"run={tmp_path / 'run'}", "checkpoint=last")
    assert code == 0, error
    assert metrics(tmp_path / "run" / "evaluate" / "val-last") == trained


def test_instance_masks(hires, tmp_path):
    """From the demo's JSON to `mask_AP`; the data reads masks because the model wants them."""
    code, _, error = hires(
        "train",
        "data=demo_boxes",
        f"data.root={tmp_path / 'demo'}",
        "data.generator={size: 160, train: 2, val: 1, test: 1}",
        "data.workers=0",
        "model=mask_rcnn",
        "model.neck.channels=16",
        "model.mask_channels=8",
        "model.mask_convs=1",
        "model.regions.hidden=16",
        "model.regions.samples=16",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "image_size=96",
        "batch_size=2",
        "trainer.max_steps=2",
        "trainer.accelerator=cpu",
        "evaluation.every=null",
        f"run_dir={tmp_path / 'run'}",
    )
    assert code == 0, error
    assert {"mask_AP", "mask_AP50/pit", "AP50/pit"} <= set(metrics(tmp_path / "run"))


@pytest.mark.parametrize(
    ("name", "workers"),
    [("fcos", 2), *(pytest.param(name, 0, marks=pytest.mark.slow) for name in ("fcos", "faster_rcnn"))],
)
def test_a_resumed_run_ends_in_the_same_bits(hires, overrides, tmp_path, name, workers):
    """Also where boxes are drawn at random."""
    overrides = overrides if name == "fcos" else with_model(overrides, name)

    def state(name, *more):
        given = [o for o in overrides if not o.startswith("run_dir=")]
        settings = [f"run_dir={tmp_path / name}", f"data.workers={workers}", "trainer.ema_decay=0.9"]
        code, _, error = hires("train", *given, *settings, *more)
        assert code == 0, error
        return torch.load(tmp_path / name / "checkpoints" / "last.pt", weights_only=True)["task"]

    whole = state("whole", "trainer.max_steps=4", "scheduler=constant")
    state("part", "trainer.max_steps=2", "scheduler=constant")
    resumed = state("part", f"resume={tmp_path / 'part'}", "trainer.max_steps=4")
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["evaluation.metric=AP_50"], "evaluation.metric: got AP_50; did you mean AP50?"),
        (["model.neck.levels=[2,4]"], "model.neck.levels: got [2, 4], allowed: levels in a row"),
        (["model.neck.channels=48"], "neck.channels: got 48, allowed: multiples of 32 from 64 on"),
        (["evaluation.size_limits=[96,32]"], "evaluation.size_limits: got [96.0, 32.0], allowed: [low, high]"),
        (["evaluation.metric=confidence"], "evaluation.metric: got confidence"),
        (["data.fit=resize", "data.window.negatives=0.2"], "data.window.negatives: got 0.2, allowed: null"),
        (["evaluation.merge=soft"], "evaluation.merge: got 'soft', allowed: nms, wbf"),
        (["data.window.focus_classes=[discs]"], "did you mean disc?"),
    ],
)
def test_wrong_settings_end_in_one_line(hires, overrides, more, message):
    code, _, error = hires("train", *overrides, *more)
    assert code == 2, error
    assert message in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("model", "task"),
    [
        ("fcos", "retinanet"),
        ("fcos", "segmentation"),
        ("retinanet", "fcos"),
        ("faster_rcnn", "mask_rcnn"),
        ("mask_rcnn", "faster_rcnn"),
        ("unet", "fcos"),
    ],
)
def test_a_task_of_another_model_is_refused(hires, tmp_path, model, task):
    """Before anything is read or written: the data that the run names is not even there."""
    run_dir = tmp_path / "run"
    given = [f"model={model}", f"task={task}", "data=coco", f"data.root={tmp_path / 'none'}", f"run_dir={run_dir}"]
    code, _, error = hires("train", *given)
    assert code == 2, error
    assert error.startswith(f"task: got {task}, but the model (")
    assert error.endswith(f") needs task={model if model != 'unet' else 'segmentation'}\n")
    assert error.count("\n") == 1
    assert not run_dir.exists()


def test_a_mask_network_on_boxes_is_refused(hires, overrides):
    given = [o for o in overrides if not o.startswith("model")]
    code, _, error = hires("train", *given, "model=unet")
    assert code == 2, error
    assert error.startswith("model: it learns from masks, which this data does not have; choose data=mask_folder")
    assert error.count("\n") == 1


def test_a_detector_on_masks_is_refused(hires, shapes_overrides):
    given = [o for o in shapes_overrides if not o.startswith("model")]
    code, _, error = hires("train", *given, "model=fcos")
    assert code == 2, error
    assert error.startswith("model: it learns from boxes, which this data does not have; choose data=coco")
    assert error.count("\n") == 1


def test_a_size_that_the_views_do_not_have_is_refused(trained, hires):
    run_dir = trained
    code, _, error = hires("evaluate", f"run={run_dir}", "evaluation.fit=resize", "evaluation.window=96")
    assert code == 2, error
    assert "evaluation.window: got 96, allowed: null with evaluation.fit=resize" in error
    code, _, error = hires("evaluate", f"run={run_dir}", "evaluation.image_size=96")
    assert code == 2, error
    assert "evaluation.image_size: got 96" in error


def test_weights_of_other_levels_bring_no_anchors(trained, hires, overrides, tmp_path):
    """Points of FCOS follow from its own levels, whatever run its weights come from."""
    given = [o for o in overrides if not o.startswith(("run_dir=", "model.neck.levels"))]
    more = ["model.neck.levels=[3,4]", f"init_from={trained}", f"run_dir={tmp_path / 'second'}"]
    code, _, error = hires("train", *given, *more)
    assert code == 0, error
    state = torch.load(tmp_path / "second" / "checkpoints" / "last.pt", weights_only=True)["task"]
    assert not any("anchors" in name for name in state)
