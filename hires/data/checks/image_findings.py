"""What is found in image files: what cannot be read, what others read differently, what varies."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from hires.data.checks.examine import Record
from hires.data.checks.finding import Finding, Place, findings_of
from hires.data.checks.image_facts import ImageFacts
from hires.data.checks.skipping import Fate
from hires.data.pairs import Pair
from hires.data.settings import DataSettings
from hires.interfaces import DataError

Known = Sequence[tuple[str, ImageFacts]]
"""Images that were read, by their paths."""


def image_findings(
    settings: DataSettings,
    pairs: Sequence[Pair],
    records: Sequence[Record],
    window: tuple[int, int] | None,
    fate: Fate,
) -> list[Finding]:
    """All about the images themselves; `window`: (height, width) of training windows, pixels, if there are any."""
    broken = [Place(p.image, r.problem) for p, r in zip(pairs, records, strict=True) if r.problem]
    known = [(p.image, r.image) for p, r in zip(pairs, records, strict=True) if r.image is not None]
    return [
        *findings_of(
            "unreadable-image",
            fate.severity,
            "{n} image(s) cannot be read" + fate.text,
            "copy them again, convert them, or remove them with their labels",
            broken,
        ),
        *_bands(settings, known),
        *_alpha(settings, known),
        *_pixels(settings, known),
        *_files(known),
        *_mixtures(known),
        *_sizes(known, window),
        *_names([pair.image for pair in pairs]),
    ]


def _bands(settings: DataSettings, known: Known) -> list[Finding]:
    """Images whose bands are not those that the settings want."""
    rules, places = settings.pixel_rules(), []
    for path, facts in known:
        try:
            rules.check(facts.info, Path(path))
        except DataError as error:
            places.append(Place(path, str(error).removeprefix(f"{path}: ")))
    return findings_of(
        "bands-refused", "error", "{n} image(s) have other bands than wanted", "as said for each", places
    )


def _alpha(settings: DataSettings, known: Known) -> list[Finding]:
    """Images that lose something with their alpha, which is a band only where data.bands names it."""
    if settings.bands is not None:
        return []
    told = [
        (facts.info.bands + facts.info.alpha, Place(path, f"alpha from {facts.alpha[0]:g} to {facts.alpha[1]:g}"))
        for path, facts in known
        if facts.alpha is not None and facts.alpha[0] < facts.alpha[1]
    ]
    count = told[0][0] if told else 0
    bands = ",".join(str(band) for band in range(1, count + 1))
    return findings_of(
        "alpha-dropped",
        "warning",
        "{n} image(s) have an alpha channel that is not the same everywhere, and that is not used",
        "nothing to do if it says what is transparent; if it is a band as others are (GDAL marks the fourth of "
        f"four so), name it: data.bands=[{bands}] backbone.in_channels={count}",
        [place for _, place in told],
    )


def _pixels(settings: DataSettings, known: Known) -> Iterator[Finding]:
    bad = [Place(path) for path, facts in known if not facts.finite and settings.nodata is None]
    advice = "say with data.nodata what they shall be (data.nodata=0), or remove the images"
    yield from findings_of("not-finite", "error", "{n} image(s) hold NaN or infinite pixels", advice, bad)
    flat = [Place(path, f"all pixels are {facts.low:g}") for path, facts in known if facts.is_flat]
    yield from findings_of(
        "blank", "warning", "{n} image(s) show nothing: all pixels are equal", "remove them", flat
    )
    other = [Place(path, f"cv2.imread reads it {facts.otherwise}") for path, facts in known if facts.otherwise]
    yield from findings_of(
        "decoders-disagree",
        "info",
        "{n} image(s) are read differently by OpenCV, which many programs read images with",
        "nothing to do for hires; another program may lose bands, bits or the size",
        other,
    )


def _files(known: Known) -> Iterator[Finding]:
    turned = [
        Place(path, f"EXIF orientation {facts.info.orientation}")
        for path, facts in known
        if facts.info.orientation != 1
    ]
    yield from findings_of(
        "orientation",
        "info",
        "{n} image(s) are turned upright by their EXIF orientation",
        "check that labels were drawn on upright images: programs that ignore EXIF show these turned",
        turned,
    )
    several = [
        Place(path, f"{facts.header.pictures} pictures") for path, facts in known if facts.header.pictures > 1
    ]
    yield from findings_of(
        "several-pictures", "info", "{n} file(s) hold several pictures", "the first one is used", several
    )
    strange = [
        Place(path, f"is {facts.header.format}") for path, facts in known if not facts.header.fits(Path(path))
    ]
    yield from findings_of(
        "other-format", "info", "{n} image(s) are of another format than their names say", "rename them", strange
    )


def _mixtures(known: Known) -> Iterator[Finding]:
    for code, name, values in (
        ("mixed-bands", "numbers of bands", {path: facts.info.bands for path, facts in known}),
        ("mixed-types", "pixel types", {path: facts.info.dtype.name for path, facts in known}),
    ):
        counts = Counter(values.values())
        if len(counts) < 2:
            continue
        usual = counts.most_common(1)[0][0]
        rare = [Place(path, f"{value}") for path, value in values.items() if value != usual]
        listed = ", ".join(
            f"{value} ({number} image{'s' * (number != 1)})" for value, number in counts.most_common()
        )
        advice = "what differs in kind may tell classes apart that look alike: check where these come from"
        if code == "mixed-types":
            advice = "save all images with pixels of one type"
        yield from findings_of(
            code,
            "info" if code == "mixed-bands" else "error",
            f"images have different {name}: {listed}",
            advice,
            rare,
        )


def _sizes(known: Known, window: tuple[int, int] | None) -> Iterator[Finding]:
    sizes = Counter(facts.info.size for _, facts in known)
    if len(sizes) > 1:
        low, high = min(sizes, key=_area), max(sizes, key=_area)
        odd = sum(number for size, number in sizes.items() if any(side % 2 for side in size))
        text = (
            f"images have {len(sizes)} sizes, from {low[0]}x{low[1]} to {high[0]}x{high[1]} (height x width)"
            + (f"; {odd} have an odd side" if odd else "")
        )
        yield Finding(
            "sizes-vary", "info", text, "nothing to do: windows are padded where an image ends", len(sizes)
        )
    if window is None:
        return
    small = [
        Place(path, "x".join(map(str, facts.info.size)))
        for path, facts in known
        if facts.info.size[0] < window[0] or facts.info.size[1] < window[1]
    ]
    text = f"{{n}} image(s) are smaller than the training window of {window[0]}x{window[1]} and will be padded"
    yield from findings_of("smaller-than-window", "info", text, "a smaller image_size wastes less", small)


def _area(size: tuple[int, int]) -> tuple[int, int]:
    """By which sizes are put in order; those that are others turned differ, too."""
    return size[0] * size[1], size[0]


def _names(paths: Sequence[str]) -> Iterator[Finding]:
    folders = defaultdict[str, list[str]](list)
    for path in paths:
        folders[PurePosixPath(path).stem].append(path)
    again = [
        Place(several[0], f"also {', '.join(several[1:])}") for several in folders.values() if len(several) > 1
    ]
    yield from findings_of(
        "names-recur",
        "info",
        "{n} file name(s) stand in several folders",
        "nothing to do for hires; a flat copy of the images would lose some",
        again,
    )
    blank = [Place(path) for path in paths if " " in path]
    yield from findings_of(
        "blanks-in-paths",
        "info",
        "{n} path(s) hold a blank",
        "nothing to do for hires; quote them in scripts",
        blank,
    )
    capital = [Place(path) for path in paths if (ending := PurePosixPath(path).suffix) != ending.lower()]
    if len(capital) < len(paths):
        yield from findings_of(
            "capital-endings",
            "info",
            "{n} file name(s) end in capitals, others do not",
            "nothing to do for hires, which found them; other globs tell them apart: *.jpg does not match .JPG",
            capital,
        )
