"""TIFF files of all kinds with the array that each must give: (name, bytes, array)."""

import io
from collections.abc import Iterator

import imagecodecs
import numpy as np
import tifffile
from image_arrays import H, W, flat, samples, smooth
from image_writers import bits_of, by_pillow, by_tifffile, cv2_reads, pillow_reads, tiff


def tiff_type_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    for dtype in ("uint8", "uint16", "int16", "float32"):
        for bands in (1, 2, 3, 4, 5, 13):
            array = samples(dtype, 48, 64, bands, seed=bands)
            together = array if bands > 1 else array[..., 0]
            yield (
                f"tiff {dtype} {bands} bands tiled",
                by_tifffile(together, **_of_bands(bands), tile=(16, 32)),
                array,
            )
            planes = by_tifffile(
                array.transpose(2, 0, 1) if bands > 1 else together,
                planarconfig="separate" if bands > 1 else None,
                extrasamples=(0,) * (bands - 1) if bands > 1 else None,
                compression="zlib",
                rowsperstrip=7,
            )
            yield f"tiff {dtype} {bands} planes in strips", planes, array
    wide = {"int8": "int16", "float16": "float32", "float64": "float32", "uint32": "float32", "int32": "float32"}
    for dtype, read in wide.items():
        array = (
            samples(dtype, H, W) if dtype in ("int8", "float16") else samples("int16", H, W).clip(0).astype(dtype)
        )
        yield f"tiff {dtype}", by_tifffile(array), flat(array.astype(read))


def _of_bands(bands: int) -> dict[str, object]:
    if bands == 1:
        return {}
    return {"planarconfig": "contig", "extrasamples": (0,) * (bands - 1)}


def tiff_codec_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    array, deep = samples("uint8", 64, 96, 3), samples("uint16", 64, 96, 3)
    lossless = {"webp": {"lossless": True}, "jpegxl": {"lossless": True}, "jpeg2000": {"level": 0}}
    for codec in ("none", "zlib", "lzw", "packbits", "zstd", "lzma", "jpegxl", "jpeg2000", "png", "webp", "lerc"):
        options: dict[str, object] = {"compression": None if codec == "none" else codec, "photometric": "rgb"}
        options["compressionargs"] = lossless.get(codec)
        yield f"tiff {codec}", by_tifffile(array, **options, tile=(32, 32)), array
        if codec in ("zlib", "lzw", "zstd"):
            yield f"tiff {codec} predictor", by_tifffile(deep, **options, predictor=True, rowsperstrip=10), deep
    real = samples("float32", 64, 96)
    yield "tiff float predictor", by_tifffile(real, compression="zlib", predictor=True, tile=(16, 16)), flat(real)
    lossy = by_tifffile(smooth(3, 64, 96), photometric="ycbcr", compression="jpeg", tile=(32, 32))
    yield "tiff jpeg ycbcr", lossy, pillow_reads(lossy, "RGB")
    data = by_pillow(smooth(3, 64, 96), "TIFF", "YCbCr")
    yield "tiff ycbcr", data, cv2_reads(data)
    blocks = samples("uint8", 32 * 48 * 6)  # of 2 x 2 pixels: four of Y, Cb, Cr
    data = tiff(blocks.tobytes(), 64, 96, {530: ("H", [2, 2])}, samples=3, photometric=6)
    yield "tiff ycbcr subsampled", data, cv2_reads(data)
    bilevel = samples("uint8", 40, 75, below=2)
    for codec in ("group3", "group4", "packbits", "raw"):
        data = by_pillow(bilevel.astype(bool), "TIFF", compression=codec)
        yield f"tiff 1 bit {codec}", data, flat(bilevel * 255)


def tiff_sample_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    gray, deep = samples("uint8", H, W), samples("uint16", H, W)
    yield "tiff big endian", by_tifffile(deep, byteorder=">"), flat(deep)
    yield (
        "tiff big endian deflate",
        by_tifffile(deep, byteorder=">", compression="zlib", predictor=True),
        flat(deep),
    )
    yield "tiff bigtiff", by_tifffile(deep, bigtiff=True, tile=(16, 16)), flat(deep)
    yield "tiff bigtiff big endian", by_tifffile(deep, bigtiff=True, byteorder=">"), flat(deep)
    for bits in (9, 10, 12, 14):
        values = samples("uint16", H, W, below=1 << bits)
        yield f"tiff {bits} bit packed", tiff(bits_of(values, bits), H, W, bits=bits), flat(values)
    values = samples("uint16", H, W * 3, below=4096)
    yield (
        "tiff 12 bit rgb",
        tiff(bits_of(values, 12), H, W, bits=12, samples=3, photometric=2),
        values.reshape(H, W, 3),
    )
    for bits in (2, 4):
        values = samples("uint8", H, W, below=1 << bits)
        yield (
            f"tiff {bits} bit",
            tiff(bits_of(values, bits), H, W, bits=bits),
            flat(values * (255 // ((1 << bits) - 1))),
        )
    yield "tiff white is zero", tiff(gray.tobytes(), H, W, photometric=0), flat(255 - gray)
    yield "tiff white is zero 16 bit", tiff(deep.tobytes(), H, W, bits=16, photometric=0), flat(65535 - deep)
    one = samples("uint8", H, W, below=2)
    yield "tiff white is zero 1 bit", tiff(bits_of(one, 1), H, W, bits=1, photometric=0), flat(255 - one * 255)
    palette = samples("uint8", 256, 3)
    told = {320: ("H", [int(v) * 257 for v in palette.T.ravel()])}
    yield "tiff palette", tiff(gray.tobytes(), H, W, told, photometric=3), palette[gray]
    small = {320: ("H", [int(v) for v in palette.T.ravel()])}
    yield "tiff palette of 8 bit entries", tiff(gray.tobytes(), H, W, small, photometric=3), palette[gray]
    four = samples("uint8", H, W, 4)
    for kind, name in ((0, "unspecified"), (1, "associated"), (2, "unassociated")):
        data = tiff(four.tobytes(), H, W, {338: ("H", [kind])}, samples=4, photometric=2)
        yield f"tiff 4th sample {name}", data, four if kind == 0 else four[..., :3]
    yield "tiff rgb and nir without a word", tiff(four.tobytes(), H, W, samples=4, photometric=2), four
    two = {338: ("H", [2])}
    yield "tiff gray alpha", tiff(four[..., :2].tobytes(), H, W, two, samples=2), four[..., :1]
    cmyk = tiff(four.tobytes(), H, W, samples=4, photometric=5)
    yield "tiff cmyk", cmyk, pillow_reads(cmyk, "RGB")
    reverse = bytes(int(f"{value:08b}"[::-1], 2) for value in gray.tobytes())
    yield "tiff bits in reverse", tiff(reverse, H, W, {266: ("H", [2])}), flat(gray)


def tiff_layout_cases() -> Iterator[tuple[str, bytes, np.ndarray]]:
    gray, rgb = samples("uint8", H, W), samples("uint8", H, W, 3)
    sparse = {322: ("I", [32]), 323: ("I", [32]), 324: ("I", [8, 0, 0, 1032]), 325: ("I", [1024, 0, 0, 1024])}
    filled = np.zeros((64, 64), np.uint8)
    filled[:32, :32], filled[32:, 32:] = (samples("uint8", 32, 32, seed=seed) for seed in (1, 2))
    data = filled[:32, :32].tobytes() + filled[32:, 32:].tobytes()
    yield "tiff sparse tiles", tiff(data, 64, 64, sparse), flat(filled.copy())
    nodata = {**sparse, 42113: ("A", [ord("9"), 0])}
    filled[:32, 32:] = filled[32:, :32] = 9
    yield "tiff sparse tiles with nodata", tiff(data, 64, 64, nodata), flat(filled)
    strips = {
        278: ("I", [10]),
        273: ("I", [8 + W * at for at in (20, 10, 0, 30)]),
        279: ("I", [W * n for n in (10, 10, 10, 7)]),
    }
    moved = np.concatenate([gray[20:30], gray[10:20], gray[:10], gray[30:]])
    yield "tiff strips out of order", tiff(moved.tobytes(), H, W, strips), flat(gray)
    overviews = io.BytesIO()
    with tifffile.TiffWriter(overviews) as file:
        file.write(rgb, photometric="rgb", tile=(16, 16), subifds=1, metadata=None)
        file.write(rgb[::2, ::2], photometric="rgb", tile=(16, 16), subfiletype=1, metadata=None)
    yield "tiff with overviews", overviews.getvalue(), rgb
    inks = imagecodecs.jpeg8_encode(smooth(4), colorspace="CMYK", outcolorspace="CMYK", level=95)
    told = {259: ("H", [7])}
    coded = tiff(inks, H, W, told, samples=4, photometric=5)
    stored = imagecodecs.jpeg8_decode(inks, outcolorspace="CMYK")
    yield "tiff cmyk jpeg", coded, pillow_reads(tiff(stored.tobytes(), H, W, samples=4, photometric=5), "RGB")
    thumbnail_first = io.BytesIO()
    with tifffile.TiffWriter(thumbnail_first) as file:
        file.write(rgb[::8, ::8], photometric="rgb", subfiletype=1, metadata=None)
        file.write(rgb, photometric="rgb", metadata=None)
    yield "tiff thumbnail first", thumbnail_first.getvalue(), rgb
    stack = samples("uint16", 5, H, W)
    yield "tiff stack of pages", by_tifffile(stack), flat(stack[0])
    yield "tiff imagej stack", by_tifffile(stack, imagej=True, metadata={}), flat(stack[0])
