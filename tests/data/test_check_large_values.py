"""Images of floats as large as float32 has them are looked at without warnings."""

import numpy as np
import pytest
import tifffile

from hires.data.checks.image_facts import read_facts


@pytest.mark.filterwarnings("error")
def test_the_thumb_of_large_values(tmp_path):
    pixels = np.full((40, 60, 3), 2e38, np.float32)
    pixels[:20] = -2e38
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb")
    thumb = read_facts(tmp_path / "a.tif").thumb
    assert (thumb.min(), thumb.max()) == (0, 255)
    assert (thumb[0] == 0).all()
    assert (thumb[-1] == 255).all()
