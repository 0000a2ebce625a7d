"""The six test photographs of HRF: masks at native size that score as the evaluation does."""

import json
import os

import cv2
import numpy as np
import pytest

from hires.data.images import read_values
from tests.conftest import REAL_DATA

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not REAL_DATA.is_dir() and "CI" not in os.environ, reason="the data sets in ../shared/data are not here"
    ),
]


@pytest.mark.slow
def test_dice_of_the_written_masks(hires, tmp_path):
    run_dir = tmp_path / "run"
    code, _, error = hires(
        "train",
        "experiment=hrf_vessels",
        f"data_dir={REAL_DATA}",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "model.full_resolution_skip=false",
        "model.decoder_channels=[16,16,8,8,8]",
        "trainer.max_steps=40",
        "scheduler.warmup_steps=5",
        "task.loss.class_weights=[0.1,1.0]",
        "image_size=64",
        "evaluation.window=1024",
        "evaluation.overlap=0.1",
        "data.splits.val=null",
        "data.workers=0",
        f"run_dir={run_dir}",
    )
    assert code == 0, error
    code, _, error = hires("evaluate", f"run={run_dir}", "split=test", "checkpoint=last")
    assert code == 0, error
    metrics = json.loads((run_dir / "evaluate" / "test-last" / "result.json").read_text())["metrics"]
    photographs = REAL_DATA / "hrf" / "test" / "images"
    code, _, error = hires("predict", f"run={run_dir}", f"source={photographs}", "checkpoint=last")
    assert code == 0, error
    masks = sorted((run_dir / "predict" / "images" / "masks").iterdir())
    truths = sorted((REAL_DATA / "hrf" / "test" / "mask").iterdir())
    assert [mask.stem for mask in masks] == [truth.stem for truth in truths]
    hit = predicted = true = 0
    for mask, truth in zip(masks, truths, strict=True):
        found = read_values(mask)[:, :, 0]
        wanted = cv2.imread(str(truth), cv2.IMREAD_UNCHANGED).reshape(found.shape) > 0
        assert found.shape == (2336, 3504)
        hit += np.count_nonzero(wanted & (found == 1))
        predicted += np.count_nonzero(found == 1)
        true += np.count_nonzero(wanted)
    assert 0 < predicted < 6 * 2336 * 3504
    assert 2 * hit / (predicted + true) == pytest.approx(metrics["Dice/vessel"], abs=1e-6)
