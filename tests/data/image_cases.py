"""Image files of all kinds with the array that each must give: (name, bytes, array)."""

import io
from collections.abc import Callable, Iterator
from functools import cache

import imagecodecs
import numpy as np
from image_arrays import H, W, flat, samples, smooth
from image_writers import bits_of, by_pillow, by_tifffile, cv2_reads, exif, pillow_reads, png, tiff
from PIL import Image
from tiff_cases import tiff_codec_cases, tiff_layout_cases, tiff_sample_cases, tiff_type_cases

Case = tuple[bytes, np.ndarray]


def _png_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    for bits in (1, 2, 4):
        values = samples("uint8", H, W, below=1 << bits)
        yield f"png gray {bits} bit", png(values, bits), flat(values * (255 // ((1 << bits) - 1)))
        palette = samples("uint8", 1 << bits, 3, seed=bits)
        yield f"png palette {bits} bit", png(values, bits, palette), palette[values]
    for bits, dtype in ((8, "uint8"), (16, "uint16")):
        for bands, name in ((1, "gray"), (3, "rgb"), (2, "gray alpha"), (4, "rgb alpha")):
            values = samples(dtype, H, W, bands)
            kept = values[..., : bands - (bands % 2 == 0)]
            yield f"png {name} {bits} bit", png(values, bits), kept
            yield f"png {name} {bits} bit interlaced", png(values, bits, interlaced=True), kept
    indices = samples("uint8", H, W)
    for seed in (1, 2):  # the same indices mean other colours in another file
        palette = samples("uint8", 256, 3, seed=seed)
        yield f"png palette number {seed}", png(indices, 8, palette), palette[indices]
        clear = {b"tRNS": bytes(range(256))}
        yield (
            f"png palette number {seed} with transparency",
            png(indices, 8, palette, chunks=clear),
            palette[indices],
        )
    gray = samples("uint8", H, W)
    yield "png gray with a transparent value", png(gray, chunks={b"tRNS": b"\0\7"}), flat(gray)


def _jpeg_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    for name, data in {
        "gray": by_pillow(smooth(1)[..., 0], "JPEG"),
        "rgb 4:2:0": by_pillow(smooth(), "JPEG", quality=90),
        "rgb 4:4:4": by_pillow(smooth(), "JPEG", quality=90, subsampling=0),
        "progressive": by_pillow(smooth(), "JPEG", progressive=True),
        "restart markers": by_pillow(smooth(), "JPEG", restart_marker_blocks=2),
        "rgb without a transform": by_pillow(smooth(), "JPEG", keep_rgb=True),
        "mpo": _mpo(),
    }.items():
        yield f"jpeg {name}", data, pillow_reads(data)
    cmyk = by_pillow(smooth(4), "JPEG", "CMYK")
    yield "jpeg cmyk", cmyk, pillow_reads(cmyk, "RGB")
    inks = 255 - smooth(4)
    ycck = imagecodecs.jpeg8_encode(inks, colorspace="CMYK", outcolorspace="YCCK", level=95)
    yield "jpeg ycck", ycck, pillow_reads(ycck, "RGB")
    named = by_pillow(smooth(), "JPEG")
    yield "jpeg named .png", named, pillow_reads(named)


def _deep_jpeg_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    for dtype, name in (("uint8", "8"), ("uint16", "16")):
        for shape in ((H, W), (H, W, 3)):
            array = samples(dtype, *shape)
            data = imagecodecs.jpeg8_encode(array, lossless=True)
            yield f"jpeg lossless {name} bit {len(shape) - 1}", data, flat(array)
    blocks = (
        samples("uint16", 5, 7, below=4096).repeat(8, axis=0).repeat(8, axis=1)
    )  # the codec keeps these exactly
    yield "jpeg 12 bit", imagecodecs.jpeg8_encode(blocks, bitspersample=12, level=100), flat(blocks)


def _mpo() -> bytes:
    out = io.BytesIO()
    first, second = Image.fromarray(smooth()), Image.fromarray(255 - smooth())
    first.save(out, "MPO", save_all=True, append_images=[second])
    return out.getvalue()


def _pnm_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    gray, rgb, deep = samples("uint8", H, W), samples("uint8", H, W, 3), samples("uint16", H, W, 3)
    one = samples("uint8", H, W, below=2)
    head = b"%d %d" % (W, H)
    text = b"\n".join(b" ".join(b"%d" % v for v in row) for row in gray)
    yield (
        "pnm P1",
        b"P1\n# drawn\n" + head + b"\n" + b"\n".join(bytes(row + 48) for row in one),
        flat(255 - one * 255),
    )
    yield "pnm P2", b"P2 " + head + b" 255\n" + text, flat(gray)
    colours = b" ".join(b"%d" % v for v in deep.ravel())
    yield "pnm P3 16 bit", b"P3\n" + head + b"\n65535\n" + colours, deep
    yield "pnm P4", b"P4\n" + head + b"\n" + bits_of(one, 1), flat(255 - one * 255)
    yield "pnm P5", b"P5\n# a comment\n" + head + b"\n255\n" + gray.tobytes(), flat(gray)
    yield "pnm P5 of 15", b"P5 " + head + b" 15\n" + (gray % 16).tobytes(), flat(gray % 16 * 17)
    yield (
        "pnm P5 12 bit",
        b"P5 " + head + b" 4095\n" + (deep[..., 0] % 4096).astype(">u2").tobytes(),
        deep[..., :1] % 4096,
    )
    yield "pnm P6", b"P6 " + head + b" 255\n" + rgb.tobytes(), rgb
    yield "pnm P6 16 bit", b"P6 " + head + b" 65535\n" + deep.astype(">u2").tobytes(), deep
    four = samples("uint8", H, W, 4)
    pam = b"P7\nWIDTH %d\nHEIGHT %d\nDEPTH 4\nMAXVAL 255\nTUPLTYPE %s\nENDHDR\n"
    yield "pam rgb alpha", pam % (W, H, b"RGB_ALPHA") + four.tobytes(), four[..., :3]
    yield "pam 4 bands", pam % (W, H, b"") + four.tobytes(), four
    real = samples("float32", H, W, 3)
    yield "pfm", b"PF\n" + head + b"\n-1.0\n" + real[::-1].tobytes(), real
    yield (
        "pfm gray big endian",
        b"Pf\n" + head + b"\n1.0\n" + real[::-1, :, 0].astype(">f4").tobytes(),
        real[..., :1],
    )


def _other_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    gray, rgb, deep = samples("uint8", H, W), samples("uint8", H, W, 3), samples("uint16", H, W, 3)
    one, four = samples("uint8", H, W, below=2), samples("uint8", H, W, 4)
    yield "bmp rgb", by_pillow(rgb, "BMP"), rgb
    yield "bmp gray", by_pillow(gray, "BMP"), flat(gray)
    yield "bmp 1 bit", by_pillow(one.astype(bool), "BMP"), flat(one * 255)
    gif = by_pillow(rgb, "GIF")
    yield "gif palette", gif, cv2_reads(gif)
    out = io.BytesIO()
    frames = [Image.fromarray(samples("uint8", H, W, seed=i)) for i in range(3)]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    yield "gif animation", out.getvalue(), flat(samples("uint8", H, W))
    yield "webp lossless", by_pillow(rgb, "WEBP", lossless=True), rgb
    yield "webp alpha", by_pillow(four, "WEBP", lossless=True, exact=True), four[..., :3]
    lossy = by_pillow(smooth(), "WEBP", quality=80)
    yield "webp lossy", lossy, pillow_reads(lossy)
    out = io.BytesIO()
    frames = [Image.fromarray(samples("uint8", H, W, 3, seed=i)) for i in range(3)]
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    yield "webp animation", out.getvalue(), samples("uint8", H, W, 3)
    yield "jpeg2000 rgb", by_pillow(rgb, "JPEG2000"), rgb
    yield "jpeg2000 gray", by_pillow(gray, "JPEG2000"), flat(gray)
    yield "jpeg2000 alpha", by_pillow(four, "JPEG2000"), four[..., :3]
    yield "jpeg2000 gray 16 bit", by_pillow(deep[..., 0], "JPEG2000"), deep[..., :1]
    yield "jpeg2000 codestream", by_pillow(rgb, "JPEG2000", no_jp2=True), rgb
    yield (
        "jpeg2000 int16",
        imagecodecs.jpeg2k_encode(samples("int16", H, W), level=0),
        flat(samples("int16", H, W)),
    )
    for dtype in ("uint8", "uint16", "int16", "float32"):
        for bands in (1, 7):
            array = samples(dtype, H, W, bands)
            out = io.BytesIO()
            np.save(out, array[..., 0] if bands == 1 else array)
            yield f"npy {dtype} {bands} bands", out.getvalue(), array


def _orientation_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    array, deep = samples("uint8", H, W, 3), samples("uint16", H, W, 5)
    blocks = samples("uint8", 32 * 48 * 6)
    plain = tiff(blocks.tobytes(), 64, 96, {530: ("H", [2, 2])}, samples=3, photometric=6)
    for orientation in range(1, 9):
        turned = turned_by_hand(array, orientation)
        block = exif(orientation)
        yield f"png exif {orientation}", png(array, chunks={b"eXIf": block}), turned
        yield f"png exif {orientation} after the pixels", png(array, late={b"eXIf": block}), turned
        yield f"webp exif {orientation}", by_pillow(array, "WEBP", lossless=True, exif=block), turned
        data = by_pillow(smooth(), "JPEG", exif=b"Exif\0\0" + block)
        yield f"jpeg exif {orientation}", data, turned_by_hand(pillow_reads(data), orientation)
        tag = [(274, "H", 1, orientation, True)]
        yield (
            f"tiff orientation {orientation}",
            by_tifffile(array, photometric="rgb", extratags=tag, tile=(16, 16)),
            turned,
        )
        told = {530: ("H", [2, 2]), 274: ("H", [orientation])}
        data = tiff(blocks.tobytes(), 64, 96, told, samples=3, photometric=6)
        yield f"tiff ycbcr orientation {orientation}", data, turned_by_hand(cv2_reads(plain), orientation)
        planes = by_tifffile(
            deep.transpose(2, 0, 1), planarconfig="separate", extrasamples=(0,) * 4, extratags=tag, rowsperstrip=5
        )
        yield f"tiff orientation {orientation}, planes", planes, turned_by_hand(deep, orientation)


def turned_by_hand(array: np.ndarray, orientation: int) -> np.ndarray:
    """By the wording of the EXIF standard: where row 0 and column 0 of the stored image lie in what is seen."""
    turns: dict[int, Callable[[np.ndarray], np.ndarray]] = {
        1: lambda a: a,
        2: lambda a: np.fliplr(a),
        3: lambda a: np.rot90(a, 2),
        4: lambda a: np.flipud(a),
        5: lambda a: np.swapaxes(a, 0, 1),
        6: lambda a: np.rot90(a, -1),
        7: lambda a: np.swapaxes(np.rot90(a, 2), 0, 1),
        8: lambda a: np.rot90(a, 1),
    }
    return turns[orientation](array)


@cache
def all_cases() -> dict[str, Case]:
    parts = (
        _png_cases,
        _jpeg_cases,
        _deep_jpeg_cases,
        tiff_type_cases,
        tiff_codec_cases,
        tiff_sample_cases,
        tiff_layout_cases,
        _pnm_cases,
        _other_cases,
        _orientation_cases,
    )
    return {name: (data, array) for part in parts for name, data, array in part()}
