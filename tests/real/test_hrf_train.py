"""Real fundus photographs of 3504 x 2336 go through training and evaluation."""

import json
import os

import pytest

from tests.conftest import REAL_DATA

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not REAL_DATA.is_dir() and "CI" not in os.environ, reason="the data sets in ../shared/data are not here"
    ),
]


@pytest.mark.slow
def test_vessels(hires, tmp_path):
    """A few steps of a tiny network at native resolution; one whole photograph is evaluated."""
    run_dir = tmp_path / "run"
    code, _, error = hires(
        "train",
        "experiment=hrf_vessels",
        f"data_dir={REAL_DATA}",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "model.full_resolution_skip=false",
        "model.decoder_channels=[16,16,8,8,8]",
        "trainer.max_steps=3",
        "image_size=64",
        "evaluation.window=1024",
        "data.splits.val=test/images/06_dr.jpg",
        "data.splits.test=null",
        "data.workers=0",
        f"run_dir={run_dir}",
    )
    assert code == 0, error
    metrics = json.loads((run_dir / "result.json").read_text())["metrics"]
    assert 0 <= metrics["Dice/vessel"] < 1
    assert 0.4 < metrics["majority_mIoU"] < 0.5  # vessels cover 6-10% of a photograph
