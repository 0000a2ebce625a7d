"""The page of a run, from what `hires.report` puts together."""

from html.parser import HTMLParser

import pytest

from hires.visualize.report import grouped, page
from tests.visualize.reports import content, evaluated, images


class Tags(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def of(self, tag):
        return [attrs for name, attrs in self.found if name == tag]


def test_names_are_text():
    tags = Tags(page(content()))
    assert not {"script", "b", "i ", "u"} & {tag for tag, _ in tags.found}
    assert all(attrs["src"].startswith("data:image/jpeg;base64,") for attrs in tags.of("img"))
    for text in ("<script>alert(1)</script>", "<b>roof", "val/<img src=x>/0.png", "<u>it fits", "2025-01-31_<i>"):
        assert text in tags.text


def test_pictures_are_in_the_page_itself():
    foreign = {"truth": "https://example.org/a.png", "prediction": "javascript:alert(1)", "image": "file:///a.png"}
    shown = [{**images(1)[0], "pictures": foreign}]
    assert not Tags(page(content(evaluated=evaluated(images=shown)))).of("img")


def test_the_page_needs_nothing_else_and_is_small():
    text = page(content(evaluated=evaluated(images=images(3))))
    assert "http" not in text
    assert not {"script", "link", "iframe"} & {tag for tag, _ in Tags(text).found}
    assert len(text) < 3 * 2**20
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_links_lead_to_sections_and_wide_boxes_take_the_focus():
    tags = Tags(page(content()))
    names = {attrs["id"] for attrs in tags.of("h2") if "id" in attrs}
    assert {attrs["href"].removeprefix("#") for attrs in tags.of("a")} <= names
    boxes = [a for a in tags.of("div") if {"wide", "strip"} & set(a.get("class", "").split())]
    assert len(boxes) >= 6
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert all(attrs["alt"] for attrs in tags.of("img"))


def test_what_it_tells():
    text = Tags(page(content())).text
    for part in (
        "at step 40 of 70",
        "1.50 GiB",  # reserved
        "2.00 GiB",  # the budget
        "stage1.0-1",
        "waiting for data",
        "30.00 s, 30.0 %",
        "data.workers=4",
        "4 x 2 images of 512 x 640",
        "optimizer.lr",
    ):
        assert part in text
    assert "exchange" not in text  # which took no time


def test_a_confusion_matrix_is_of_shares_of_the_truth():
    text = page(content())
    assert 'style="--share:0.900" title="900 pixels">90 %' in text
    assert text.count("<td style=") == 9
    assert "water" in text[text.index("Most pixels that are wrong") :]


def test_many_classes_are_told_by_their_largest_confusions():
    count = 40
    counts = [[0] * count for _ in range(count)]
    counts[3][5] = 77
    many = evaluated(classes=[f"class{n}" for n in range(count)], confusion=counts, unpainted="class0")
    text = page(content(evaluated=many))
    assert "--share:0" not in text
    assert "<td>class3</td><td>class5</td><td>77</td><td>100 %</td>" in text


def test_classes_have_the_colours_of_their_pictures():
    found = evaluated(colours=["#000000", "#C23B70", "#0000ff"])
    text = page(content(evaluated=found))
    assert '<i style="background:#c23b70"></i>&lt;b&gt;roof' in text
    assert '<i style="background:#0000ff"></i>water' in text
    assert "#000000" not in text  # that class is not painted


def test_precision_over_recall():
    curves = {"car": [1.0] * 50 + [0.5] * 51, "bus": [0.5] * 101}
    found = evaluated(confusion=None, curves=curves, boxes=True, confidence=0.35, unpainted=None)
    tags = Tags(page(content(evaluated=found)))
    assert "Precision and recall" in tags.text
    assert "mean of the classes" in tags.text
    assert "confidence of at least 0.35" in tags.text
    assert "No image has an object" in page(content(evaluated=evaluated(curves={}, confusion=None)))


@pytest.mark.parametrize(
    "nothing",
    [
        {"evaluated": None, "records": [], "plan": None, "time": None, "advice": [], "settings": [], "result": {}},
        {"evaluated": evaluated(images=[], metrics={}), "peaks": {}},
        {"time": {"seconds": {}, "steps": 0, "steps_sampled": 0}},
        {"records": [{"kind": "train", "step": 1, "loss": None, "lr": 0.1}]},
    ],
)
def test_what_is_not_known_is_said(nothing):
    assert "<h2" in page(content(**nothing))


def test_units_with_one_policy_are_a_range():
    policies = {"stem": "none", "stage1": "none", "stage3.0": "full", "stage3.1": "full", "stage3.2": "none"}
    assert list(grouped(policies)) == [
        ("stem", "none"),
        ("stage1", "none"),
        ("stage3.0-1", "full"),
        ("stage3.2", "none"),
    ]
