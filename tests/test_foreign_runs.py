"""The files of a run that somebody else has made: read as a run's, or refused in one line, whatever they hold."""

import json
import socket
from pathlib import Path

import pytest

from hires import report, runs
from hires.compare_runs import found_of_runs
from hires.engine import journal, lock
from hires.errors import ConfigError, HiresError
from hires.predictions.record import keep_settings
from hires.provenance import ENVIRONMENT, _starts, changes
from hires.run_classes import classes_of_run
from hires.run_files import of_a_run
from hires.run_statistics import load_normalization
from hires.visualize import run_comparison
from tests.made_runs import made_run

DEEP = "[" * 100_000
LONG = "9" * 400
NO_TEXT = b"\xff\xfe\x00"
ANYTHING = [DEEP, '{"a":' * 50_000, NO_TEXT, "[]", "null", "3", '"x"', "{"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A run without a training, and another to compare it with."""
    root = tmp_path_factory.mktemp("foreign")
    for name in ("run", "other"):
        made_run(root / name, "data=mask_folder", "data.root=x", "data.classes={background: 0, disc: 1, bar: 2}")
        (root / name / "result.json").write_text('{"steps": 1}')
    return root


@pytest.fixture
def run(made, monkeypatch):
    """Its directory, and its report without what takes long; what a test writes there does not last."""
    monkeypatch.setattr(report, "differing", lambda cfg: ({}, []))
    before = {path: path.read_bytes() for path in (made / "run").iterdir() if path.is_file()}
    yield made / "run"
    for path in list((made / "run").iterdir()):
        if path.is_file() and path not in before:
            path.unlink()
    for path, content in before.items():
        path.write_bytes(content)


def write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def read_or_refused(read, *arguments) -> str | None:
    """None, or the one line of an error of ours; any other error fails the test."""
    try:
        read(*arguments)
    except HiresError as error:
        return _one_line(str(error))
    return None


def _one_line(text: str) -> str:
    assert "\n" not in text
    assert len(text) < 600
    return text


def compared(run: Path) -> str:
    with of_a_run("runs"):
        found = found_of_runs([str(run), str(run.parent / "other")])
        run_comparison.table(found)
        return run_comparison.page(found)


RESULTS = [
    '{"peak_bytes": [1]}',
    '{"best": [1]}',
    '{"best": {"metric": "<script>", "value": "x", "step": 1}}',
    '{"metrics": [1]}',
    '{"metrics": {"a": [1], "IoU/<script>": "x"}}',
    '{"steps": 1e999, "peak_bytes": {"allocated": NaN, "reserved": "x"}}',
    f'{{"peak_bytes": {{"predicted": 3, "reserved": {LONG}}}}}',
    f'{{"seconds_per_step": {LONG}}}',
]
RECORDS = [
    DEEP,
    NO_TEXT,
    '{"kind": "train", "step": "a", "loss": 1}',
    '{"kind": ["train"], "step": 1}',
    '{"kind": "train", "step": 1, "loss": {"a": "x"}}',
    '{"kind": "evaluate", "step": 1, "mIoU": [], "<script>": 1}',
    '{"kind": "train", "step": 1, "loss": 1e999, "lr": NaN}',
    f'{{"kind": "train", "step": {LONG}, "loss": {LONG}}}',
]
REPORTS = [
    '{"evaluated": 3}',
    '{"evaluated": {"images": [{"pictures": {"image": "javascript:alert(1)"}}]}}',
    '{"evaluated": {"classes": 3, "confusion": [[1e999]]}}',
    '{"evaluated": {"curves": {"a": ["x"]}, "note": 3}}',
    '{"time": {"seconds": {"a": "x"}, "steps": NaN}}',
    '{"device": ["<b>"]}',
]
ALIASES = "a: &a [1, 1]\nb: &b [*a, *a]\n"


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("result.json", [*ANYTHING, *RESULTS]),
        ("metrics.jsonl", RECORDS),
        ("report.json", [*ANYTHING, *REPORTS]),
        ("plan.yaml", [DEEP, NO_TEXT, ALIASES, "policies: &a {b: *a}", "policies: 3\nbudget: x", "rungs: 3"]),
        (
            ENVIRONMENT,
            [*ANYTHING, '{"starts": [{"versions": 3}]}', '{"starts": ' + '{"a": ' * 500 + "1" + "}" * 501],
        ),
    ],
)
def test_reports_and_comparisons(run, name, contents):
    for content in contents:
        write(run / name, content)
        for read in (report.rebuild, compared):
            read_or_refused(read, run)
        if (run / report.PAGE).exists():
            assert "<script>" not in (run / report.PAGE).read_text()


@pytest.mark.parametrize("content", [DEEP, "{", NO_TEXT])
def test_what_is_no_json_is_named(run, content):
    write(run / "result.json", content)
    for read in (report.rebuild, compared):
        assert f"{run / 'result.json'}: cannot be read" in str(read_or_refused(read, run))


def test_lines_that_are_no_records_are_passed_over(run):
    good = '{"kind": "train", "step": 1, "loss": 1.5}'
    (run / "metrics.jsonl").write_bytes(b"\n".join([good.encode(), DEEP.encode(), NO_TEXT, b'{"step": "x"}']))
    assert [record["loss"] for record in journal.records(run / "metrics.jsonl")] == [1.5]


@pytest.mark.parametrize(
    "content",
    [
        *ANYTHING,
        '{"classes": ["a"], "category_ids": [1e999]}',
        '{"classes": ["a"], "category_ids": [NaN]}',
        '{"classes": [1], "category_ids": [1]}',
        '{"classes": 5, "category_ids": 5}',
        '{"classes": ["a", "b"], "category_ids": [1]}',
    ],
)
def test_classes(run, content):
    write(run / "classes.json", content)
    told = read_or_refused(classes_of_run, run, None)
    assert told is not None
    assert told.startswith(f"{run / 'classes.json'}: not the classes of a run")


@pytest.mark.parametrize("value", [int(LONG), [int(LONG)], float("nan"), [1e308, "x"], None, "x", []])
def test_statistics(run, value):
    sound = json.loads((run / "statistics.json").read_text())
    for key in sound:
        write(run / "statistics.json", json.dumps({**sound, key: value}))
        told = read_or_refused(load_normalization, run)
        assert told is None or told.startswith(f"{run / 'statistics.json'}: not the statistics of a run")
    write(run / "statistics.json", json.dumps({**sound, "low": value}))
    assert read_or_refused(load_normalization, run) is not None


@pytest.mark.parametrize("content", ANYTHING)
def test_statistics_that_are_anything(run, content):
    write(run / "statistics.json", content)
    assert "not the statistics of a run" in str(read_or_refused(load_normalization, run))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (DEEP, "nested too deeply"),
        (NO_TEXT, "cannot be read"),
        ("\0", "not YAML"),
        ("a: &a [*a]\ndata: {}", "has aliases"),
        ("data: {x: &x {y: 1}, z: {<<: *x}}", "has aliases"),
        ("data: !!python/object/apply:os.system [ls]", "not YAML"),
        ("- data", "not the configuration of a training"),
    ],
)
def test_configurations(run, content, told):
    write(run / "config.yaml", content)
    assert told in str(read_or_refused(runs.load_config, run))


def test_a_value_that_looks_like_a_date_is_text(run):
    write(run / "config.yaml", "data: {root: 2026-99-99}")
    assert runs.load_config(run).data.root == "2026-99-99"


def test_a_few_lines_that_stand_for_more_than_any_memory(run):
    lines = ["data: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    write(run / "config.yaml", "\n".join(lines))
    assert "has aliases" in str(read_or_refused(runs.load_config, run))


def test_a_start_that_says_anything_ends_no_training(run, caplog):
    now = {
        "versions": {"a": 1},
        "hires": {"version": 1, "code_sha256": 2},
        "data": {"train": {"sha256": 1, "images": 1}},
    }
    for before in ({"versions": 3}, {"versions": None, "hires": [], "data": 7}, {"data": {"train": 5}}):
        write(run / ENVIRONMENT, json.dumps({"starts": [before]}))
        (kept,) = _starts(run / ENVIRONMENT)
        assert "Not the versions of the last start" in next(iter(changes(kept, now)))
    write(run / ENVIRONMENT, DEEP)
    assert _starts(run / ENVIRONMENT) == []


@pytest.mark.parametrize("pid", [-1, 0, "x", 1e9, 2**70, None, True, [1]])
def test_a_lock_that_says_anything_is_one_of_nobody(run, pid):
    holder = {"host": socket.gethostname(), "pid": pid, "started": None, "since": "x"}
    write(run / lock.NAME, json.dumps(holder))
    assert lock.holder(run) is None
    lock.check_free(run)


@pytest.mark.parametrize("content", [DEEP[:4096], "[]", '{"host": "a", "pid": 1, "starts": "x"}', NO_TEXT])
def test_a_lock_that_is_none(run, content):
    write(run / lock.NAME, content)
    assert lock.holder(run) is None


def test_settings_of_predictions(tmp_path):
    for content in (DEEP, NO_TEXT, "[]"):
        write(tmp_path / "settings.json", content)
        with pytest.raises(ConfigError, match="predictions made in another way"):
            keep_settings(tmp_path, {"a": 1}, {}, overwrite=False)
