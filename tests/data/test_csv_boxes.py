"""CSV files of boxes: with and without a header, with images without objects, whatever program wrote them."""

import csv
from io import StringIO

import numpy as np
import pytest
from box_files import images, write
from hypothesis import given
from hypothesis import settings as few
from hypothesis import strategies as st

from hires.data.csv_boxes import CsvBoxes
from hires.data.csv_rows import read_csv
from hires.interfaces import ConfigError, DataError
from hires.settings import SettingError

ROWS = "b/2.png,1,2,3.5,4,dog\na.png,10,20,30,40,cat\nb/2.png,5,6,7,8,cat\na b.png,,,,,\n"


@pytest.fixture
def settings(folder):
    images(folder, "a.png", "b/2.png", "a b.png")
    write(folder / "all.csv", ROWS)

    def make(**changes):
        return CsvBoxes(root=str(folder), **({"annotations": "all.csv", "splits": {}, "cache_gib": 0} | changes))

    return make


def content(source):
    found = {}
    for index in range(len(source)):
        target = source.objects(index)
        labels = [source.classes[label] if label >= 0 else None for label in target["labels"]]
        found[source.name(index)] = list(zip(labels, target["boxes"].tolist(), strict=True))
    return found


SAME = {
    "b/2.png": [("dog", [1, 2, 3.5, 4]), ("cat", [5, 6, 7, 8])],
    "a.png": [("cat", [10, 20, 30, 40])],
    "a b.png": [],
}


@pytest.mark.parametrize(
    "text",
    [
        ROWS,
        "path,x1,y1,x2,y2,label\n" + ROWS,
        ROWS.replace("\n", "\r\n\r\n"),
        "\ufeff" + ROWS,
        ROWS.replace(",", ";"),
        ROWS.replace(",", "\t"),
        ROWS.replace("a b.png", '"a b.png"').replace("dog", '"dog"'),
        ROWS.replace("b/2.png", "b\\2.png").replace("a.png", "./b/../a.png"),
        " ,,\n" + ROWS.replace(",", " , "),
    ],
    ids=["plain", "header", "crlf", "bom", "semicolons", "tabs", "quotes", "windows", "blanks"],
)
def test_what_programs_write(folder, settings, text):
    write(folder / "all.csv", text)
    source = settings().source("train")
    assert content(source) == SAME
    assert (source.classes, source.category_ids) == (("cat", "dog"), (1, 2))


def test_utf_16(folder, settings):
    write(folder / "all.csv", ROWS, "utf-16")
    assert content(settings().source("train")) == SAME


def test_columns_in_any_order_by_their_names(folder, settings):
    text = "filename,width,height,class,xmin,ymin,xmax,ymax\na.png,60,40,cat,10,20,30,40\na b.png,60,40,,,,,\n"
    write(folder / "all.csv", text)
    assert content(settings().source("train")) == {"a.png": SAME["a.png"], "a b.png": []}


def test_paths_are_absolute_or_begin_in_a_folder(folder, settings):
    write(folder / "all.csv", f"2.png,1,2,3,4,x\n{folder / 'a.png'},,,,,\n")
    assert list(content(settings(images="b").source("train"))) == ["b/2.png", "a.png"]
    outside, absent = "all.csv:1: has the path .*outside", "all.csv: 1 of 1 images are not there"
    for path, problem in {
        **dict.fromkeys(("../x.png", "..", "a/../..", "/", str(folder.parent)), outside),
        **dict.fromkeys(("/elsewhere/x.png", "C:\\x.png"), f"{outside}|{absent}"),
    }.items():
        write(folder / "all.csv", f"{path},1,2,3,4,x\n")
        with pytest.raises(DataError, match=problem):
            settings().source("train")


def test_classes(settings):
    assert content(settings(classes={"pet": ["cat", "dog"]}).source("train"))["b/2.png"][0][0] == "pet"
    ignored = settings(ignore_classes=["dog"]).source("train")
    assert (ignored.classes, ignored.objects(0)["ignored"].tolist()) == (("cat",), [True, False])
    with pytest.raises(DataError, match="all.csv: class dog is none of cat; 1 object"):
        settings(classes=["cat"]).source("train")


def test_one_file_is_divided_by_splits(settings):
    made = settings(splits={"val": "b/*"})
    assert content(made.source("val")) == {"b/2.png": SAME["b/2.png"]}
    assert list(content(made.source("train"))) == ["a.png", "a b.png"]  # in their order


def test_a_file_for_each_split(folder, settings):
    write(folder / "v.csv", "a.png,1,1,5,5,bird\n")
    write(folder / "t.csv", "b/2.png,1,1,5,5,cat\n")
    made = settings(annotations={"train": "t.csv", "val": "v.csv"})
    train, val = made.source("train"), made.source("val")
    assert train.classes == val.classes == ("bird", "cat")
    assert (content(train), content(val)) == (
        {"b/2.png": [("cat", [1, 1, 5, 5])]},
        {"a.png": [("bird", [1, 1, 5, 5])]},
    )
    with pytest.raises(ConfigError, match="no CSV for 'test', only for train, val"):
        made.source("test")
    write(folder / "v.csv", ROWS)
    with pytest.raises(DataError, match=r"leak: 1 image\(s\) are in both"):
        made.source("train")
    with pytest.raises(SettingError, match="images: .*one folder, as data.annotations is one CSV"):
        settings(images={"train": "b"})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a.png,1,2,3,cat", r"5 column\(s\), expected 6: path,x1,y1,x2,y2,label"),
        ("a.png,1,2,3,x,cat", r"\['1', '2', '3', 'x'\] are not four numbers"),
        ("a.png,1,2,nan,4,cat", "are no pixels"),
        ("a.png,1,2,inf,4,cat", "are no pixels"),
        ("a.png,1,2,1e30,4,cat", "are no pixels"),
        ("a.png,1,2,3,4,", "has a box without label"),
        ("a.png,,2,3,4,cat", "are not four numbers"),
        ("a.png,,,,,cat", "are not four numbers"),
        (",1,2,3,4,cat", "has no path"),
        ('"a.png,1,2,3,4,cat', "unexpected end of data"),
        ('"a"x,1,2,3,4,cat', "expected after"),
        ("a\0.png,1,2,3,4,cat", "."),
        ("x" * 5000 + ",1,2,3,4,cat", "."),
        ("x" * 200_000, "field larger than field limit"),
    ],
)
def test_lines_that_are_no_boxes_are_named(folder, settings, line, problem):
    write(folder / "all.csv", f"b/2.png,1,2,3,4,dog\n{line}\n")
    with pytest.raises(DataError, match=f"all.csv:?.*{problem}") as caught:
        settings().source("train")
    assert ":2: " in str(caught.value) or "not there" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n\n", "lists no image"),
        ("a.png 1 2 3 4 cat\n", r":1: 1 column\(s\), expected path"),
        (
            "path,x1,y1,x2,label\n",
            ":1: the header has no column for y2; it has path, x1, y1, x2, label: .*data.columns='{y2: NAME}'",
        ),
        ("path,x1,y1,x2,y2,label,class\n", ":1: the header has 2 columns for label"),
        ("path,x1,y1,x2,y2,label\nb/3.png,,,,,\n", "1 of 1 images are not there: b/3.png"),
        ("\xff\xff", "is no text"),
    ],
)
def test_files_that_are_no_lists(folder, settings, text, problem):
    write(folder / "all.csv", text, "latin-1")
    with pytest.raises(DataError, match=f"all.csv.*{problem}"):
        settings().source("train")


def test_images_that_cannot_be_read_are_left_out_on_request(folder, settings, caplog):
    write(folder / "b/2.png", "no image")
    (folder / "a b.png").unlink()
    with pytest.raises(DataError, match="1 of 3 images are not there: a b.png"):
        settings().source("train")
    write(folder / "all.csv", ROWS + "c.png,,,,,\n" + "d" * 5000 + ",,,,,\n")
    images(folder, "c.png", "d.png")
    write(folder / "v.csv", "d.png,,,,,\n")
    for files in ("all.csv", {"train": "all.csv", "val": "v.csv"}):
        with pytest.raises(DataError, match="of 5 images can be read|of 5 images .* only 2 can be read"):
            settings(annotations=files, on_error="skip").source("train")
        images(folder, "a b.png")
        found = content(settings(annotations=files, on_error="skip").source("train"))
        assert found == {"a.png": SAME["a.png"], "a b.png": [], "c.png": []}
        (folder / "a b.png").unlink()
    assert "b/2.png: not an image" in caplog.text
    assert "a b.png: no such file" in caplog.text


def test_what_is_not_quite_right_is_counted(folder, settings, caplog):
    write(folder / "all.csv", "a.png,30,20,10,40,cat\na.png,1,1,5,5,cat\na.png,1,1,5,5,cat\na.png,1,1,99,5,cat\n")
    assert content(settings().source("train"))["a.png"] == [("cat", [1, 1, 5, 5]), ("cat", [1, 1, 60, 5])]
    told = " ".join(record.getMessage() for record in caplog.records)
    assert all(word in told for word in ("1 box(es) without area", "1 box(es) reach beyond", "1 box(es) repeat"))


GERMAN = "Bild;Befund;Mitte X %;Mitte Y %;Breite %;Höhe %\na.png;cat;33,3333;75;33,3333;50,0\na b.png;;;;;\n"
CENTRES = {"cx": "Mitte X %", "cy": "Mitte Y %", "w": "Breite %", "h": "Höhe %"}


def test_a_header_of_other_names_in_percent_with_decimal_commas(folder, settings):
    write(folder / "all.csv", "\ufeff" + GERMAN)
    columns = {"path": "Bild", "label": "befund", **CENTRES}
    found = content(settings(columns=columns, box="cxcywh", units="percent").source("train"))
    assert list(found) == ["a.png", "a b.png"]
    ((label, box),) = found["a.png"]
    assert (label, found["a b.png"]) == ("cat", [])
    np.testing.assert_allclose(box, [10, 20, 30, 40], atol=1e-4)


@pytest.mark.parametrize(
    ("box", "units", "text"),
    [
        ("xywh", "pixels", "a.png,10,20,20,20,cat\n"),
        ("cxcywh", "pixels", "label,file,width,height,x_center,y_center\ncat,a.png,20,20,20,30\n"),
        ("xyxy", "shares", "label,path,left,top,right,bottom\ncat,a.png,0.166667,0.5,0.5,1\n"),
        ("xywh", "percent", "path;x;y;w;h;label\na.png;16,6667;50;33,3333;50;cat\n"),
    ],
)
def test_other_forms_and_units(folder, settings, box, units, text):
    write(folder / "all.csv", text)
    ((label, found),) = content(settings(box=box, units=units).source("train"))["a.png"]
    np.testing.assert_allclose(found, [10, 20, 30, 40], atol=1e-4)
    assert label == "cat"


def test_a_header_without_known_names_is_said_to_be_one(folder, settings):
    for header in (GERMAN, GERMAN.replace("Bild;", "Nr;Bild;")):
        write(folder / "all.csv", header)
        with pytest.raises(
            DataError, match=r":1: the header has no column for path, x1, y1, x2, y2, label; it has .*Befund"
        ):
            settings().source("train")
    write(folder / "all.csv", GERMAN)
    with pytest.raises(DataError, match=r"no column for path; it has Bild, .*data.columns='{path: NAME}'"):
        settings(columns={"label": "Befund", **CENTRES}, box="cxcywh").source("train")


def test_numbers_that_are_no_shares_and_columns_of_another_form(folder, settings):
    with pytest.raises(DataError, match=r"all.csv:1: .* are too large for data.units=shares"):
        settings(units="shares").source("train")
    with pytest.raises(SettingError, match="columns: got 'cx', allowed: path, x1, .*; data.box=cxcywh has cx"):
        settings(columns={"cx": "X"})


NAMES = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=8)
BOXES = st.tuples(*[st.integers(0, 999)] * 4)


@few(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NAMES, st.none() | st.tuples(BOXES, NAMES)), min_size=1, max_size=9))
def test_any_names_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(["path", "x1", "y1", "x2", "y2", "label"])
    for name, found in rows:
        writer.writerow([f"i/{name}.png", *(found[0] if found else [""] * 4), f"c{found[1]}" if found else ""])
    write(path, out.getvalue())
    read = read_csv(path, ".", path.parent)
    given_boxes = [found[0] for _, found in rows if found]
    np.testing.assert_array_equal(read.boxes, np.array(given_boxes).reshape(-1, 4))
    assert [read.names[number] for number in read.classes] == [f"c{found[1]}" for _, found in rows if found]


@pytest.mark.parametrize("name", ["left", "w", "class"])
def test_a_class_that_is_called_as_a_column_is_makes_no_header(folder, settings, name):
    write(folder / "all.csv", f"a.png,1,2,3,4,{name}\n")
    assert content(settings().source("train"))["a.png"] == [(name, [1, 2, 3, 4])]
