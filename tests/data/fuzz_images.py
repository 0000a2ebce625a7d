"""Image files of all kinds for `fuzzing.py`, and how they are read."""

import io
from pathlib import Path

import numpy as np
from image_cases import all_cases
from test_dicom import CODECS, U16
from test_dicom import write as write_dicom
from test_slides import write as write_slide

from hires.data.checks.image_facts import read_facts
from hires.data.checks.peers import differs
from hires.data.images import ImageInfo, image_info, mask_bands, read_image
from hires.interfaces import DataError, Window

_UNUSUAL = ImageInfo((9, 9), np.dtype(np.uint16), 7, False, "")  # which OpenCV is asked about in any case


def files() -> dict[str, bytes]:
    """Every case of the table, and DICOM files and a slide."""
    found = {name: data for name, (data, _) in all_cases().items()}
    out = io.BytesIO()
    write_dicom(out, U16)
    found["dicom"] = out.getvalue()
    for name, (syntax, array, encode) in CODECS.items():
        if encode:
            out = io.BytesIO()
            write_dicom(out, array, syntax, [bytes(encode(array))])
            found[f"dicom {name}"] = out.getvalue()
    out = io.BytesIO()
    write_slide(out, np.zeros((500, 700, 3), np.uint8), 33005, compressionargs={"level": 0})
    found["slide"] = out.getvalue()
    return found


def attempt(path: Path) -> None:
    """Reads the header, a window, the whole, as a check of data does, and the file as a mask.

    Raises DataError, the first of them; what other decoders choke on, which a check asks, too, is none.
    """
    info = image_info(path)
    height, width = info.size
    try:
        read_image(path, Window(height // 3, width // 3, min(height - height // 3, 9), min(width - width // 3, 9)))
        whole = read_image(path)
        assert (whole.shape, whole.dtype) == ((*info.size, info.bands), info.dtype)
        facts = read_facts(path)
        assert (facts.alpha is None) == (not info.alpha)
        differs(path, _UNUSUAL, facts.header)
        for _ in mask_bands(path, 64):
            pass
    except DataError as error:
        if "a mask has one channel" not in str(error):
            raise
