"""`hires check-data` on every real set: what its README lists is found, and nothing else.

The tables are the contract: CASES has all findings of a configuration, DEFECTS what the READMEs list.
"""

import json
import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOT = REPOSITORY / ".." / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data is not here"),
]
INDICES = [
    "data=mask_folder",
    "data.root=${data_dir}/dubai_aerial",
    "data.images='*/images/*.jpg'",
    "data.masks='*/masks/*.png'",
    "data.classes={a: 0, b: 1, c: 2, d: 3, e: 4, f: 5}",
    "image_size=256",
]
COLOURS_OF_JSON = (
    "data.classes={building: '#D0021B', land: '#F5A623', road: '#DE597F', vegetation: '#417505', water: '#50E3C2'}"
)
SIZES, NAMES, BLANKS = ("sizes-vary", "info", 7), ("names-recur", "info", 9), ("blanks-in-paths", "info", 36)
CARS = [
    ("box-over-edge", "warning", 3),
    ("class-unused", "warning", 1),
    ("several-pictures", "info", 2),
    ("sizes-vary", "info", 5),
    ("capital-endings", "info", 2),
    ("classes-uneven", "info", 3),
]
TILES = [
    ("empty-masks", "warning", 4),
    ("sizes-vary", "info", 120),
    ("smaller-than-window", "info", 21),
    ("classes-uneven", "info", 5),
]
SOFT = ("soft-masks", "info", 96)
PCB = [
    ("list-other-name", "info", 56),
    ("list-other-name", "info", 24),
    ("mixed-bands", "info", 8),
]
CASES = {
    "hrf": (["experiment=hrf_vessels"], [("classes-uneven", "info", 1)]),
    "hrf, resized": (
        ["experiment=hrf_vessels", "data.fit=resize", "image_size=512"],
        [("too-small", "warning", 1), ("classes-uneven", "info", 1)],
    ),
    "dubai_aerial": (
        ["experiment=dubai_aerial"],
        [
            SIZES,
            NAMES,
            BLANKS,
            ("palette-masks", "info", 18),
            ("unlisted-values", "info", 2),
            ("classes-file", "info", 1),
        ],
    ),
    "dubai_aerial, by index": (
        INDICES,
        [
            ("unreadable-mask", "error", 18),
            ("palettes-differ", "error", 16),
            *(SIZES, NAMES, BLANKS),
            ("class-not-evaluated", "info", 1),
            ("classes-uneven", "info", 1),
        ],
    ),
    "dubai_aerial, colours of its classes.json": (
        ["experiment=dubai_aerial", COLOURS_OF_JSON],
        [
            ("unlisted-values", "error", 36),
            ("class-unused", "warning", 5),
            *(SIZES, NAMES, BLANKS),
            ("palette-masks", "info", 18),
            ("classes-file", "info", 1),
        ],
    ),
    "aerial_cars": (["experiment=aerial_cars"], [*CARS, ("class-not-evaluated", "info", 1)]),
    "aerial_cars, its own lists": (
        ["experiment=aerial_cars", "data.splits={train: train3.txt, val: test3.txt}"],
        [
            ("list-without-image", "error", 100),
            ("list-without-image", "error", 13),
            ("leak-listed", "error", 1),
            ("leak-similar", "warning", 2),
            ("leak-frames", "warning", 7),
            ("list-other-name", "info", 34),
            ("list-other-name", "info", 8),
            *CARS,
        ],
    ),
    "bccd": (
        ["experiment=bccd_cells"],
        [("box-without-area", "warning", 2), ("foreign-paths", "info", 168), ("classes-uneven", "info", 2)],
    ),
    "magnetic_tile": (["experiment=magnetic_tile"], [*TILES, SOFT]),
    "magnetic_tile, values as they are": (
        ["experiment=magnetic_tile", "data.threshold=null"],
        [*TILES, ("unlisted-values", "error", 96)],
    ),
    "magnetic_tile, divided at random": (
        ["experiment=magnetic_tile", "data.fold=null", "data.groups=null", "data.split_seed=1"],
        [*TILES, SOFT, ("leak-similar", "warning", 9), ("similar", "info", 14)],
    ),
    "deeppcb": (["experiment=deeppcb"], PCB),
    "deeppcb, classes from 0": (
        ["experiment=deeppcb", "data.index_base=0"],
        [*PCB, ("unlisted-classes", "error", 75), ("class-unused", "warning", 1)],
    ),
}
MOS = {"MOS79.png", "MOS80.png", "MOS92.png"}
BLOOD = {f"JPEGImages/BloodImage_00{n}.jpg" for n in (338, 343)}
BLACK = {f"Tile 8/masks/image_part_00{n}.png" for n in (2, 3)}
DEFECTS = [
    # (README's words, case, code, files or a text that the finding has)
    ("boxes out of bounds: MOS79, MOS80, MOS92", "aerial_cars", "box-over-edge", MOS),
    ("2 MPO 4000x2250", "aerial_cars", "several-pictures", {"DJI_0022.JPG", "DJI_0028.JPG"}),
    ("extension .JPG in capitals", "aerial_cars", "capital-endings", {"DJI_0022.JPG", "DJI_0028.JPG"}),
    ("cyclist 0 (declared, never used in the whole data set)", "aerial_cars", "class-unused", {"cyclist"}),
    (
        "an aerial/ prefix that does not exist",
        "aerial_cars, its own lists",
        "list-other-name",
        "taken for MOS164.png",
    ),
    ("MOS164.png is in train3 AND test3", "aerial_cars, its own lists", "leak-listed", {"MOS164.png"}),
    (
        "neighbouring frames of one clip are split",
        "aerial_cars, its own lists",
        "leak-frames",
        "DJI-00760-00002.jpg",
    ),
    ("13 listed images are missing", "aerial_cars, its own lists", "list-without-image", "aerial/harlem-0051.jpg"),
    ("2 zero-area boxes", "bccd", "box-without-area", BLOOD),
    ("strong class imbalance (11:1)", "bccd", "classes-uneven", "RBC has 11.5 times as many objects as Platelets"),
    (
        "holds a foreign absolute path",
        "bccd",
        "foreign-paths",
        "168 label file(s) name their image by a path of another machine",
    ),
    (
        "the lists name X.jpg, which does not exist",
        "deeppcb",
        "list-other-name",
        "taken for group20085/20085/20085000_",
    ),
    (
        "class ids start at 1",
        "deeppcb, classes from 0",
        "unlisted-classes",
        "classes that data.classes does not list (6)",
    ),
    ("8 of the 80 images here are RGB", "deeppcb", "mixed-bands", "1 (72 images), 3 (8 images)"),
    ("classes.json ships other colours", "dubai_aerial", "classes-file", {"classes.json"}),
    (
        "99 % of the pixels match nothing",
        "dubai_aerial, colours of its classes.json",
        "unlisted-values",
        "99 % of all",
    ),
    (
        "masks of Tile 2 and Tile 4 are palette PNG",
        "dubai_aerial",
        "palette-masks",
        "18 of 36 masks are palette files",
    ),
    ("15 different orders in 18 files", "dubai_aerial", "palette-masks", "15 palettes"),
    (
        "silently wrong labels",
        "dubai_aerial, by index",
        "palettes-differ",
        "palette indices are then hardly classes",
    ),
    ("off-list colour (0,0,0)", "dubai_aerial", "unlisted-values", BLACK),
    (
        "545,723 px in Tile 8/part_003",
        "dubai_aerial",
        "unlisted-values",
        "#000000 (0, 0, 0): 545723 px (17 % of it)",
    ),
    ("886 px in Tile 8/part_002", "dubai_aerial", "unlisted-values", "#000000 (0, 0, 0): 886 px"),
    ("folder names contain a space", "dubai_aerial", "blanks-in-paths", "36 path(s)"),
    (
        "same file names recur in every tile",
        "dubai_aerial",
        "names-recur",
        "also Tile 2/images/image_part_001.jpg",
    ),
    (
        "Sizes differ by one pixel inside a tile",
        "dubai_aerial",
        "sizes-vary",
        "7 sizes, from 544x509 to 1480x2149",
    ),
    ("masks are not binary", "magnetic_tile", "soft-masks", "96 mask(s) have soft edges"),
    ("differ by up to 43 % of the foreground", "magnetic_tile", "soft-masks", "45 % of a mask's foreground"),
    ("4 MT_Uneven masks are all zero", "magnetic_tile", "empty-masks", "MT_Uneven/Imgs/exp"),
    (
        "The same tile appears at several exposures",
        "magnetic_tile, divided at random",
        "leak-similar",
        "exp1_num_86828",
    ),
    ("nearly every size different", "magnetic_tile", "sizes-vary", "120 sizes"),
    ("tiny foreground", "magnetic_tile", "classes-uneven", "sound has 4,516 times as many pixels as blowhole"),
    ("values 0 / 255 (not 0 / 1)", "hrf", None, None),  # said in the class table: nothing is wrong
]
UNSEEN = [
    ("aerial_cars", "incomplete labels: parked cars beside the road are often not labelled"),
    ("aerial_cars", "13 label files have no image"),  # in the source, not here
    ("hrf", "3 test images (11_h, 12_h, 13_h) have NO mask"),  # in the source, not here
]
"""What a README lists and nobody can see in the files."""


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """The findings of a case, and its exit code; each case is run once."""
    done = {}

    def run(case: str) -> tuple[int, dict]:
        if case not in done:
            from hires.cli import main

            run_dir = tmp_path_factory.mktemp("check")
            arguments = [*CASES[case][0], f"data_dir={ROOT.resolve()}", "data.workers=0", f"run_dir={run_dir}"]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.argv", ["hires", "check-data", *arguments])
                code = main()
            done[case] = code, json.loads((run_dir / "data.json").read_text())
        return done[case]

    return run


@pytest.mark.parametrize("case", CASES)
def test_what_is_found_and_nothing_else(case, check):
    code, outcome = check(case)
    found = [(one["code"], one["severity"], one["number"]) for one in outcome["findings"]]
    assert sorted(found) == sorted(CASES[case][1])
    assert code == any(severity == "error" for _, severity, _ in found)


@pytest.mark.parametrize(("words", "case", "code", "where"), DEFECTS, ids=[defect[0] for defect in DEFECTS])
def test_what_the_readmes_list(words, case, code, where, check):
    folder = case.split(",")[0]
    assert words in readme(folder)
    findings = [one for one in check(case)[1]["findings"] if one["code"] == code]
    if code is None:
        assert not any(one["severity"] != "info" for one in check(case)[1]["findings"])
    elif isinstance(where, set):
        assert {place["file"] for one in findings for place in one["places"]} == where
    else:
        assert any(where in json.dumps(one, ensure_ascii=False) for one in findings)


@pytest.mark.parametrize(("folder", "words"), UNSEEN)
def test_what_cannot_be_seen_is_listed_here(folder, words):
    assert words in readme(folder)


def readme(folder: str) -> str:
    """The words of a README without its marks of emphasis and code."""
    return " ".join((ROOT / folder / "README.md").read_text().replace("*", "").replace("`", "").split())
