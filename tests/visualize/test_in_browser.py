"""Pages as a real browser shows them, on a phone and a laptop, in light and dark."""

import cv2
import pytest

from hires.visualize import comparison, data, memory, report, run_comparison, search
from tests.visualize import test_comparison, test_data_page, test_memory_page, test_search_page
from tests.visualize.browser import facts, needs_chromium, screenshot
from tests.visualize.reports import content
from tests.visualize.test_run_comparison import outcome

PAGES = {
    "report": lambda: report.page(content()),
    "runs": lambda: run_comparison.page(outcome()),
    "settings": lambda: comparison.page(
        test_comparison.outcome(**dict.fromkeys(("none", "full"), test_comparison.found(reserved=2**31)))
    ),
    "memory": lambda: memory.page(test_memory_page.outcome()),
    "search": lambda: search.page(test_search_page.measured()),
    "data": lambda: data.page(test_data_page.OUTCOME),
}
DRAWN = {
    "report": ["lines 5", "bars 8", "images 27"],
    "runs": ["lines 9", "bars 5", "images 0"],
    "settings": ["lines 2", "bars 6", "images 0"],
    "memory": ["lines 0", "bars 3", "images 0"],
    "search": ["lines 0", "bars 0", "images 0"],
    "data": ["lines 0", "bars 1", "images 0"],
}


@needs_chromium
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_and_everything_is_drawn(tmp_path, name):
    said, console = facts(tmp_path, PAGES[name](), [390, 1280])
    assert said == {390: DRAWN[name], 1280: DRAWN[name]}
    assert console == []


@needs_chromium
def test_what_is_wrong_would_be_seen(tmp_path):
    broken = report.page(content()) + "<p style='width:2000px'>wide</p><img src='data:,'><script>x.y</script>"
    said, console = facts(tmp_path, broken, [390])
    assert "the page scrolls sideways" in said[390]
    assert "an image is not shown" in said[390]
    assert len(console) == 1


@needs_chromium
def test_dark_is_dark(tmp_path):
    brightness = {}
    for dark in (False, True):
        shot = cv2.imread(str(screenshot(tmp_path, PAGES["report"](), 1280, 1400, dark=dark)))
        assert shot.std() > 10  # there is something on it
        brightness[dark] = float(cv2.mean(shot)[0])
    assert brightness[True] < 60
    assert brightness[False] > 200
