"""DICOM images in the modality's values, against pydicom; nothing of a patient is told."""

import sys
import tracemalloc

import imagecodecs
import numpy as np
import pydicom
import pytest
from image_arrays import samples, smooth
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_modality_lut
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
    VLWholeSlideMicroscopyImageStorage,
)

from hires.data.formats import dicom
from hires.data.images import image_info, read_image, read_values
from hires.interfaces import DataError, Window

H, W = 30, 44


def write(path, array, syntax=ExplicitVRLittleEndian, frames=None, stored=None, **tags):
    """An image (H, W) or (H, W, 3); `frames`: encoded ones instead of the array's bytes."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = syntax, "1.2.840.10008.5.1.4.1.1.7"
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    image = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    image.SOPClassUID = tags.pop("SOPClassUID", meta.MediaStorageSOPClassUID)
    image.PatientName, image.PatientID = "Doe^Jane", "SECRET-77"
    image.Rows, image.Columns = array.shape[:2]
    image.SamplesPerPixel = 1 if array.ndim == 2 else array.shape[2]
    image.PhotometricInterpretation = "MONOCHROME2" if array.ndim == 2 else "RGB"
    image.BitsAllocated = 8 * array.dtype.itemsize
    image.BitsStored = stored or image.BitsAllocated
    image.HighBit, image.PixelRepresentation = image.BitsStored - 1, int(array.dtype.kind == "i")
    if array.ndim == 3:
        image.PlanarConfiguration = 0
    order = ">" if syntax == ExplicitVRBigEndian else "<"
    image.PixelData = encapsulate(frames) if frames else array.astype(array.dtype.newbyteorder(order)).tobytes()
    image["PixelData"].VR = "OB" if frames or image.BitsAllocated == 8 else "OW"
    for name, value in tags.items():
        setattr(image, name, value)
    if order == ">":
        image.set_original_encoding(False, False)
    image.save_as(path, enforce_file_format=True)
    return path


def pydicom_reads(path):
    image = pydicom.dcmread(path)
    array = apply_modality_lut(image.pixel_array, image)
    return array if array.ndim == 3 else array[:, :, None]


U12 = samples("uint16", H, W, below=4096)
U16, I16, U8, RGB = (
    samples("uint16", H, W),
    samples("int16", H, W),
    samples("uint8", H, W),
    samples("uint8", H, W, 3),
)
HU = {"RescaleSlope": "1", "RescaleIntercept": "-1024"}

CASES = {
    "uint8": (U8, {}, "uint8"),
    "uint16": (U16, {}, "uint16"),
    "uint16 of 12 bits": (U12, {"stored": 12}, "uint16"),
    "int16": (I16, {}, "int16"),
    "implicit": (U12, {"stored": 12, "syntax": ImplicitVRLittleEndian, **HU}, "int16"),
    "big endian": (I16, {"syntax": ExplicitVRBigEndian}, "int16"),
    "deflated": (U16, {"syntax": DeflatedExplicitVRLittleEndian}, "uint16"),
    "Hounsfield units": (U12, {"stored": 12, **HU}, "int16"),
    "all 16 bits rescaled": (U16, HU, "float32"),
    "a slope": (U12, {"stored": 12, "RescaleSlope": "0.25", "RescaleIntercept": "-3"}, "float32"),
    "rgb": (RGB, {}, "uint8"),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_modality(tmp_path, name):
    array, options, dtype = CASES[name]
    path = write(tmp_path / "a", array, **options)
    image, info = read_image(path), image_info(path)
    assert image.dtype == dtype
    np.testing.assert_array_equal(image, pydicom_reads(path))
    assert info[:6] == (image.shape[:2], image.dtype, image.shape[2], False, "DICOM", 0)
    np.testing.assert_array_equal(read_image(path, Window(3, 5, 9, 11)), image[3:12, 5:16])


CODECS = {
    "rle": (RLELossless, U16, None),
    "jpeg-ls": (JPEGLSLossless, U16, imagecodecs.jpegls_encode),
    "jpeg 2000": (JPEG2000Lossless, U16, lambda array: imagecodecs.jpeg2k_encode(array, level=0)),
    "jpeg 2000 signed": (JPEG2000Lossless, I16, lambda array: imagecodecs.jpeg2k_encode(array, level=0)),
    "lossless jpeg": (JPEGLosslessSV1, U16, lambda array: imagecodecs.jpeg8_encode(array, lossless=True)),
}


@pytest.mark.parametrize("name", CODECS)
def test_compressed_frames(tmp_path, name):
    syntax, array, encode = CODECS[name]
    if encode:
        path = write(tmp_path / "a", array, syntax, [bytes(encode(array))])
    else:
        path = write(tmp_path / "a", array)
        image = pydicom.dcmread(path)
        image.compress(syntax)
        image.save_as(path)
    np.testing.assert_array_equal(read_image(path)[..., 0], array)


@pytest.mark.parametrize(
    ("syntax", "encode"),
    [
        (JPEG2000Lossless, lambda array: imagecodecs.jpeg2k_encode(array, level=0)),
        (JPEGLSLossless, imagecodecs.jpegls_encode),
        (JPEGBaseline8Bit, lambda array: imagecodecs.jpeg8_encode(array)),
    ],
)
@pytest.mark.parametrize("shape", [(3000, 3000), (H, W, 3)])
def test_an_image_within_that_is_another_is_not_decoded(tmp_path, syntax, encode, shape):
    data = bytes(encode(np.zeros(shape, np.uint8)))
    path = write(tmp_path / "a", np.zeros((H, W), np.uint8), syntax, [data])
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="/a: the DICOM file is damaged"):
            read_image(path)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_a_jpeg_within_that_is_cut_short_or_goes_on_for_ever(tmp_path):
    whole = bytes(imagecodecs.jpeg8_encode(smooth(1, H, W)[..., 0]))
    path = write(tmp_path / "a", smooth(1, H, W)[..., 0], JPEGBaseline8Bit, [whole[: len(whole) // 2]])
    with pytest.raises(DataError, match="/a: the JPEG is cut short"):
        read_image(path)
    scan = whole.index(b"\xff\xda")
    many = whole[:-2] + whole[scan:-2] * 201 + whole[-2:]
    path = write(tmp_path / "b", smooth(1, H, W)[..., 0], JPEGBaseline8Bit, [many])
    with pytest.raises(DataError, match="/b: the JPEG has more than 200 scans"):
        read_image(path)


def test_a_colour_jpeg_becomes_rgb(tmp_path):
    array = smooth(3, H, W)
    data = imagecodecs.jpeg8_encode(array, level=95)
    options = {"PhotometricInterpretation": "YBR_FULL_422"}
    path = write(tmp_path / "a", array, JPEGBaseline8Bit, [data], **options)
    np.testing.assert_array_equal(read_image(path), imagecodecs.jpeg8_decode(data))


def test_units_in_functional_groups(tmp_path):
    told, group = pydicom.Dataset(), pydicom.Dataset()
    told.RescaleSlope, told.RescaleIntercept = "2", "-7"
    group.PixelValueTransformationSequence = [told]
    path = write(tmp_path / "a", U12, stored=12, SharedFunctionalGroupsSequence=[group])
    np.testing.assert_array_equal(read_image(path)[..., 0], U12.astype(np.int16) * 2 - 7)


def test_units_by_a_table_are_refused(tmp_path):
    table = pydicom.Dataset()
    table.LUTDescriptor, table.LUTData = [4, 0, 16], [1, 2, 3, 4]
    table["LUTDescriptor"].VR = table["LUTData"].VR = "US"
    path = write(tmp_path / "a", U12, stored=12, ModalityLUTSequence=[table])
    with pytest.raises(DataError, match="/a: .* told by a table"):
        read_image(path)


def test_planes_and_ybr(tmp_path):
    planes = write(tmp_path / "planes", RGB, PlanarConfiguration=1)
    np.testing.assert_array_equal(read_image(planes), RGB.ravel().reshape(3, H, W).transpose(1, 2, 0))
    ybr = write(tmp_path / "ybr", smooth(3, H, W), PhotometricInterpretation="YBR_FULL")
    expected = pydicom.pixels.convert_color_space(smooth(3, H, W), "YBR_FULL", "RGB")
    assert np.abs(read_image(ybr).astype(int) - expected).max() <= 1


def test_monochrome1_is_inverted_within_its_range(tmp_path):
    options = {"PhotometricInterpretation": "MONOCHROME1"}
    path = write(tmp_path / "a", U12, stored=12, **options)
    np.testing.assert_array_equal(read_image(path)[..., 0], 4095 - U12)
    np.testing.assert_array_equal(read_values(path)[..., 0], U12)
    signed = write(tmp_path / "b", I16, **options)
    np.testing.assert_array_equal(read_image(signed)[..., 0], -1 - I16)


def test_bits_above_those_stored_do_not_count(tmp_path):
    path = write(tmp_path / "a", U12 | 0xA000, stored=12)
    np.testing.assert_array_equal(read_image(path)[..., 0], U12)
    signed = samples("int16", H, W, below=None).clip(-2048, 2047)
    path = write(tmp_path / "b", (signed & 0x0FFF).astype(np.int16), stored=12)
    np.testing.assert_array_equal(read_image(path)[..., 0], signed)


def test_of_several_frames_the_first_is_read(tmp_path):
    path = write(tmp_path / "a", U16, NumberOfFrames="3")
    image = pydicom.dcmread(path)
    image.PixelData = np.stack([U16, U16 + 1, U16 + 2]).tobytes()
    image.save_as(path)
    np.testing.assert_array_equal(read_image(path)[..., 0], U16)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-500],
        lambda data: data[:400],
        lambda data: data.replace(b"MONOCHROME2", b"PALETTE\0   "),
        lambda data: data.replace(b"\x28\x00\x10\x00US\x02\x00\x1e\x00", b"\x28\x00\x10\x00US\x02\x00\x00\x00"),
        lambda data: data.replace(b"\x28\x00\x10\x00US\x02\x00\x1e\x00", b"\x28\x00\x10\x00US\x02\x00\xff\xff"),
    ],
)
def test_what_is_wrong_is_told_without_the_patient(tmp_path, damage, capfd, caplog, recwarn):
    path = write(tmp_path / "a", U16)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match="/a: ") as caught:
        read_image(path)
    told = str(caught.value) + str(caught.value.__cause__) + caplog.text + "".join(capfd.readouterr())
    assert "Doe" not in told
    assert "SECRET" not in told
    assert not recwarn.list
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_without_pydicom_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a", U16)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(DataError, match=r"/a: .*pip install 'hires\[dicom\]'"):
        read_image(path)


def test_lengths_beyond_the_file_need_no_memory(tmp_path):
    """As large as they are told, they would not fit."""
    path = write(tmp_path / "a", U16)
    data = bytearray(path.read_bytes())
    at = data.index(b"\x10\x00\x20\x00LO") + 6  # of the patient's number
    data[at - 2 : at + 6] = b"OB\0\0" + (2**32 - 16).to_bytes(4, "little")
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="/a: the DICOM file is damaged"):
            read_image(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_deflated_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(dicom, "_MOST_UNPACKED", 2**21)
    path = write(tmp_path / "a", np.zeros((2000, 2000), np.uint8), DeflatedExplicitVRLittleEndian)
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="/a: the deflated DICOM file unpacks to more"):
        read_image(path)


def test_a_microscope_s_slide_is_not_read_as_its_first_tile(tmp_path):
    path = write(tmp_path / "a", RGB, SOPClassUID=VLWholeSlideMicroscopyImageStorage)
    with pytest.raises(DataError, match="/a: "):
        read_image(path)
