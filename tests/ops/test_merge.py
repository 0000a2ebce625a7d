"""What several windows, flips and scales show of an image is found once, and where it is."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torchvision.ops import batched_nms, box_iou

from hires.interfaces import View, Window
from hires.ops.boxes import Detections, chosen, nothing, turned
from hires.ops.merge import merge
from hires.ops.view_boxes import is_cut
from hires.ops.windows import tiles

FLIPS = [(), (1,), (2,), (1, 2)]
HOW = pytest.mark.parametrize("how", ["nms", "wbf"])


def detections(boxes, scores, labels=None, extent=(0, 0)):
    boxes = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
    labels = torch.zeros(len(boxes)) if labels is None else torch.tensor(labels)
    return Detections(boxes, torch.tensor(scores, dtype=torch.float32), labels.long(), extent)


def seen(view, truth, padding=(0, 0)):
    """What a perfect detector finds in a view: the objects, clipped to the window."""
    y, x, height, width = view.window
    corner, end = torch.tensor([x, y] * 2), torch.tensor([x + width, y + height] * 2)
    boxes = truth.boxes.clamp(corner, end)
    inside = (boxes[:, 2:] > boxes[:, :2]).all(1)
    boxes = (boxes - corner) * torch.tensor([view.width / width, view.height / height] * 2)
    extent = view.height + padding[0], view.width + padding[1]
    return turned(chosen(truth._replace(boxes=boxes, extent=extent), inside), view.flip)


@st.composite
def scenes(draw):
    """Boxes that some window shows whole, the views of an image, and their padding."""
    size, window = (draw(st.integers(1, 150)), draw(st.integers(1, 150))), draw(st.integers(24, 64))
    windows = tiles(size, (window, window), draw(st.sampled_from([0.0, 0.25, 0.5])))
    scales = draw(st.lists(st.sampled_from([0.5, 1.0, 1.7, 2.0]), min_size=1, max_size=2, unique=True))
    flips = draw(st.lists(st.sampled_from(FLIPS), min_size=1, max_size=3, unique=True))
    views = [
        View(w, max(1, round(w.height * scale)), max(1, round(w.width * scale)), flip)
        for scale in scales
        for w in windows
        for flip in flips
    ]
    boxes = []
    for _ in range(draw(st.integers(0, 8))):
        y, x = draw(st.integers(0, size[0] - 1)), draw(st.integers(0, size[1] - 1))
        box = [x, y, draw(st.integers(x + 1, size[1])), draw(st.integers(y + 1, size[0]))]
        boxes += [box] if any(shows_whole(w, box, size) for w in windows) else []
    labels = draw(st.lists(st.integers(0, 2), min_size=len(boxes), max_size=len(boxes)))
    truth = detections(boxes, [0.9 - 0.1 * i for i in range(len(boxes))], labels, size)
    padding = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    return size, views, truth, padding


def shows_whole(window, box, size, near=4.5):
    y, x, height, width = window
    left, top = (-1 if start == 0 else start + near for start in (x, y))
    right = size[1] if x + width == size[1] else x + width - near
    bottom = size[0] if y + height == size[0] else y + height - near
    return left < box[0] and top < box[1] and box[2] <= right and box[3] <= bottom


def distinct(truth, iou):
    overlaps = box_iou(truth.boxes, truth.boxes) * (truth.labels[:, None] == truth.labels)
    return bool((overlaps.fill_diagonal_(0) < iou).all())


@settings(max_examples=80, deadline=None)
@given(scenes(), st.sampled_from(["nms", "wbf"]))
def test_every_object_is_found_once_whatever_the_views(scene, how):
    size, views, truth, padding = scene
    assume(distinct(truth, 0.45))
    views = sorted(views, key=lambda view: view.window)
    found = merge(
        size, ((view, seen(view, truth, padding)) for view in views), how=how, iou=0.5, max_detections=100
    )
    assert found.extent == size
    order = found.scores.argsort(descending=True, stable=True)
    assert order.tolist() == list(range(len(order)))

    def rows(d):
        return sorted(
            [*map(float, box.round(decimals=2)), int(label)] for box, label in zip(d.boxes, d.labels, strict=True)
        )

    assert rows(found) == [pytest.approx(row, abs=0.02) for row in rows(truth)]
    if how == "nms":
        assert found.scores.tolist() == pytest.approx(truth.scores.tolist(), abs=1e-6)


def overview(size, side=32):
    scale = min(1, side / max(size))
    return View(Window(0, 0, *size), *(max(1, round(scale * s)) for s in size), overview=True)


def shaken(truth, far, seed, view):
    """What a view says that is sure of everything, and finds it up to `far` of its pixels beside its place."""
    noise = torch.rand(truth.boxes.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    moved = seen(view, truth)
    inside = moved.boxes + noise[: len(moved.boxes)] * far
    return moved._replace(boxes=inside, scores=torch.full_like(moved.scores, 0.99))


@settings(max_examples=100, deadline=None)
@given(scenes(), st.sampled_from(["nms", "wbf"]), st.integers(0, 999), st.sampled_from([0, 0.5]))
def test_an_overview_changes_nothing_of_what_windows_show_whole(scene, how, seed, far):
    """Also where it is not exact, if the window has room around the object."""
    size, views, truth, padding = scene
    view, slack = overview(size), 2.6 * max(size) / 32 if far else 0
    views = sorted(views, key=lambda view: view.window)
    room = [any(shows_whole(v.window, box, size, 4.5 + slack) for v in views) for box in truth.boxes.tolist()]
    truth = chosen(truth, torch.tensor(room, dtype=torch.bool))
    assume(distinct(truth, 0.45))
    predictions = [(view, seen(view, truth, padding)) for view in views]
    alone = merge(size, predictions, how=how, iou=0.5, max_detections=100)
    more = [(view, shaken(truth, far, seed, view)), *predictions]
    both = merge(size, more, how=how, iou=0.5, max_detections=100)
    for one, other in zip(both[:3], alone[:3], strict=True):
        assert torch.equal(one, other)


@HOW
def test_an_overview_finds_what_no_window_shows_whole(how):
    """Beside a small object, of which it is surer than the window, and a false alarm as small."""
    size, large, small = (100, 300), [10, 20, 280, 90], [20, 5, 30, 15]
    windows = [View(w, 100, 100) for w in tiles(size, (100, 100), 0.25)]
    truth = detections([large, small], [0.6, 0.5], extent=size)
    predictions = [(view, seen(view, truth)) for view in windows]
    view = overview(size, 100)
    alarm = detections([large, [22, 6, 31, 16], [250, 4, 262, 14]], [0.9, 0.95, 0.99], extent=size)
    found = merge(size, [(view, seen(view, alarm)), *predictions], how=how, iou=0.5, max_detections=100)
    assert found.boxes.tolist() == [pytest.approx(large, abs=0.01), pytest.approx(small, abs=0.01)]
    assert found.scores.tolist() == pytest.approx([0.9, 0.5])


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(["nms", "wbf"]))
def test_nothing_lies_outside_the_image(data, how):
    """Whatever is found, also in the padding and beyond."""
    size = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 60))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    views = [View(w, 20, 25, data.draw(st.sampled_from(FLIPS))) for w in tiles(size, (32, 32), 0.3)]
    predictions = []
    for view in views:
        boxes = torch.rand(9, 4, generator=generator) * 60 - 10
        boxes[0] = float("nan")
        predictions.append(
            (view, detections(boxes.tolist(), torch.rand(9, generator=generator).tolist(), [1] * 9, (32, 32)))
        )
    found = merge(size, predictions, how=how, iou=0.5, max_detections=7)
    assert len(found.boxes) <= 7
    assert (found.boxes >= 0).all()
    assert (found.boxes[:, 2:] <= torch.tensor(size[::-1])).all()
    assert (found.boxes[:, 2:] > found.boxes[:, :2]).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.sampled_from(["nms", "wbf"]), st.sampled_from([0.3, 0.5, 0.7]))
def test_one_window_over_the_image_changes_nothing(seed, how, iou):
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(40, 2, generator=generator) * 60
    boxes = torch.cat([corners, corners + 1 + torch.rand(40, 2, generator=generator) * 30], 1)
    scores, labels = torch.rand(40, generator=generator), torch.randint(3, (40,), generator=generator)
    kept = batched_nms(boxes, scores, labels, iou)
    expected = chosen(Detections(boxes, scores, labels, (100, 100)), kept)
    found = merge(
        (100, 100), [(View(Window(0, 0, 100, 100), 100, 100), expected)], how=how, iou=iou, max_detections=99
    )
    for one, other in zip(found[:3], expected[:3], strict=True):
        assert one.tolist() == other.tolist()


LEFT, RIGHT = View(Window(0, 0, 100, 100), 100, 100), View(Window(0, 60, 100, 100), 100, 100)
SIZE = (100, 160)


def merged(predictions, how="nms", limit=100):
    return merge(SIZE, predictions, how=how, iou=0.5, max_detections=limit)


@HOW
def test_cut_box_yields_to_the_whole_one_even_when_surer(how):
    left, right = detections([[70, 20, 99.5, 40]], [0.9]), detections([[10, 20, 60, 40]], [0.5])
    found = merged([(LEFT, left), (RIGHT, right)], how)
    assert found.boxes.tolist() == [[70, 20, 120, 40]]
    assert found.scores.tolist() == [0.5]


@HOW
def test_cut_box_stays_beside_a_whole_one_of_its_own_window_and_of_another_class(how):
    """The left window itself shows a small cut object in front of a large one."""
    both = detections([[40, 20, 96, 80], [80, 30, 100, 40]], [0.9, 0.8])
    assert len(merged([(LEFT, both)], how).boxes) == 2
    whole = detections([[10, 20, 60, 40]], [0.5], [1])
    assert len(merged([(LEFT, detections([[70, 20, 100, 40]], [0.9], [0])), (RIGHT, whole)], how).boxes) == 2


@HOW
def test_object_larger_than_any_window_stays_in_pieces_and_slivers_go(how):
    """The third window sees a corner of what the first shows more of."""
    low = View(Window(50, 0, 50, 100), 50, 100)
    left, right = detections([[5, 5, 100, 95]], [0.6]), detections([[0, 5, 95, 95]], [0.7])
    found = merged([(LEFT, left), (RIGHT, right), (low, detections([[5, 0, 100, 45]], [0.9]))], how)
    assert found.boxes.tolist() == [[60, 5, 155, 95], [5, 5, 100, 95]]


def test_same_window_flipped_finds_an_object_twice_cut_and_whole():
    """One pass says that it ends at the border, the other that it does not."""
    turned_left = LEFT._replace(flip=(2,))
    predictions = [
        (LEFT, detections([[50, 20, 96, 40]], [0.5])),
        (turned_left, detections([[0, 20, 50, 40]], [0.9], extent=(100, 100))),
    ]
    assert merged(predictions).boxes.tolist() == [[50, 20, 96, 40]]


def test_border_of_the_image_cuts_nothing():
    boxes = torch.tensor([[0.0, 0, 50, 100], [70, 10, 98.5, 20], [70, 10, 97, 20]])
    assert is_cut(boxes, LEFT, SIZE).tolist() == [False, True, False]
    assert is_cut(boxes + torch.tensor([60.0, 0, 60, 0]), RIGHT, SIZE).tolist() == [True, False, False]
    coarse = LEFT._replace(height=25, width=25)  # a pixel of this view is 4 of the image
    assert is_cut(boxes, coarse, SIZE).tolist() == [False, True, True]


def test_fused_box_is_weighted_by_score():
    turned_left = LEFT._replace(flip=(2,))
    other = detections([[60, 10, 80, 30]], [0.2], extent=(100, 100))  # 20 to 40 turned back
    found = merged([(LEFT, detections([[22, 10, 42, 30]], [0.6])), (turned_left, other)], "wbf")
    torch.testing.assert_close(found.boxes, torch.tensor([[21.5, 10, 41.5, 30]]))
    assert found.scores.tolist() == pytest.approx([0.4])


def test_missing_witness_counts_only_where_a_view_could_have_seen_it():
    overlap, left_only, at_the_border = [70, 10, 90, 20], [10, 10, 30, 20], [50, 50, 90, 70]
    found = merged(
        [(LEFT, detections([overlap, left_only, at_the_border], [0.8, 0.7, 0.6])), (RIGHT, nothing((100, 100)))],
        "wbf",
    )
    scores = {tuple(box): score for box, score in zip(found.boxes.tolist(), found.scores.tolist(), strict=True)}
    assert scores == {
        tuple(overlap): pytest.approx(0.4),
        tuple(left_only): pytest.approx(0.7),
        tuple(at_the_border): pytest.approx(0.6),
    }


@HOW
def test_masks_and_frames_travel_along(how):
    grid = torch.arange(9.0).reshape(1, 3, 3)
    view = View(Window(0, 60, 100, 100), 50, 50, (2,))
    box = detections([[40, 10, 60, 20]], [0.9], extent=(64, 64))
    box = box._replace(masks=grid, frames=torch.tensor([[40.0, 10, 70, 20]]))
    found = merged([(view, box), (LEFT, nothing((100, 100)))], how)
    assert found.boxes.tolist() == [[68, 20, 108, 40]]
    assert found.frames.tolist() == [[48, 20, 108, 40]]
    assert found.masks.tolist() == grid.flip(2).tolist()


@HOW
def test_centres_in_the_padding_are_dropped(how):
    view = View(Window(0, 0, 100, 160), 50, 80)
    boxes = [[70, 10, 88, 20], [74, 10, 90, 20], [10, 45, 20, 60], [5, 5, 5, 9]]
    found = merged([(view, detections(boxes, [0.9, 0.8, 0.7, 0.6], [0, 1, 2, 3], (96, 96)))], how)
    assert found.boxes.tolist() == [[140, 20, 160, 40]]


@HOW
def test_nothing_found(how):
    assert len(merged([], how).boxes) == 0
    found = merged([(view, nothing((100, 100))) for view in (overview(SIZE), LEFT, RIGHT)], how)
    assert found.boxes.shape == (0, 4)
    assert found.extent == SIZE
