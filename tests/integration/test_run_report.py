"""report.html of runs, and finished runs side by side, through the command line."""

import json
import os

import pytest

from hires import report
from hires.compare_runs import names
from hires.engine.lock import RunLock
from hires.run_files import at_checkpoint, environment
from tests.visualize.test_report_page import Tags

REPORT = ["run_dir", "command", "device", "time", "evaluated"]
EVALUATED = {
    "split",
    "step",
    "note",
    "metrics",
    "classes",
    "score",
    "scores",
    "confidence",
    "confusion",
    "curves",
    "boxes",
    "unpainted",
    "colours",
    "images",
}
RUN = {
    "path",
    "finished",
    "steps",
    "best",
    "metrics",
    "peak_bytes",
    "seconds_per_step",
    "images_per_second",
    "curves",
}


@pytest.fixture
def run(hires, shapes_overrides, tmp_path):
    def train(*more):
        code, out, error = hires("train", *shapes_overrides, *more)
        assert code == 0, error
        return tmp_path / "run", out

    return train


def read(path):
    return json.loads(path.read_text())


def test_a_training_leaves_a_report_which_an_evaluation_makes_anew(run, hires):
    run_dir, out = run("optimizer.lr=0.0123", "evaluation.every=2", "trainer.max_steps=6")
    found = read(run_dir / "report.json")
    assert list(found) == REPORT
    assert (found["command"], found["device"]) == ("train", "cpu")
    spent, result = found["time"], read(run_dir / "result.json")
    assert (spent["steps"], spent["steps_sampled"]) == (6, 3)
    parts = {"waiting", "forward", "backward", "optimizer", "evaluation", "saving", "other"}
    assert set(spent["seconds"]) >= parts
    assert all(value >= 0 for value in spent["seconds"].values())
    evaluated = found["evaluated"]
    assert set(evaluated) == EVALUATED
    assert evaluated["step"] == result["best"]["step"]
    assert evaluated["metrics"]["mIoU"] == pytest.approx(result["best"]["value"])
    (image,) = evaluated["images"]  # the only one of the validation split
    assert (image["name"], image["rank"]) == ("images/5.png", "median")
    assert image["window"] == [0, 0, 185, 201]
    assert image["score"] == pytest.approx(evaluated["metrics"]["mIoU"])
    assert set(image["pictures"]) == {"truth", "prediction", "image"}
    assert sum(map(sum, evaluated["confusion"])) == 180 * 201  # without the ignored rows
    text = Tags((run_dir / "report.html").read_text()).text
    for part in ("0.0123", "disc", "images/5.png", "forward", f"at step {result['best']['step']} of 6"):
        assert part in text
    assert "peak reserved" in out
    assert str(run_dir / "report.html") in out

    (run_dir / "report.html").unlink()
    code, _, error = hires("evaluate", f"run={run_dir}")
    assert code == 0, error
    again = read(run_dir / "report.json")
    assert again["command"] == "evaluate"
    assert again["time"] == spent
    assert again["evaluated"]["images"] == evaluated["images"]
    assert (run_dir / "report.html").exists()
    folder = run_dir / "evaluate" / "val-best"
    assert (folder / "report.html").read_text() == (run_dir / "report.html").read_text()

    (run_dir / "report.html").unlink()
    other = run_dir.parent / "best.pt"
    other.write_bytes((run_dir / "checkpoints" / "best.pt").read_bytes())
    assert hires("evaluate", f"run={run_dir}", f"checkpoint={other}")[0] == 0
    assert not (run_dir / "report.html").exists(), "that is another file"
    with RunLock() as lock:
        lock.take(run_dir)
        code, out, _ = hires("evaluate", f"run={run_dir}")
        assert code == 0
    assert "The run's own report.html stays as it is" in out
    assert not (run_dir / "report.html").exists()

    (run_dir / "result.json").unlink()  # as of a training that ended after its last evaluation
    code, _, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    kept = read(run_dir / "report.json")
    assert (kept["time"], kept["evaluated"]) == (spent, again["evaluated"])


def test_a_report_is_made_again_from_the_files_of_a_run(run, hires):
    run_dir, _ = run("data.splits={val: null}", "trainer.max_steps=2")
    page = (run_dir / "report.html").read_text()
    assert "Nothing was evaluated" in page
    assert "exchange between" not in page, "there is one process"

    def remake():
        code, out, error = hires("report", f"run={run_dir}")
        assert code == 0, f"{error}{out}{sorted(os.listdir(run_dir))}"

    for name in ("report.html", "report.json", "result.json"):
        (run_dir / name).rename(run_dir / f"{name}.away")  # as of a run that was killed
    remake()
    page = Tags((run_dir / "report.html").read_text()).text
    assert "All 2 steps are done, but the result is missing" in page
    assert "by the lines of metrics.jsonl" in page, (run_dir / "metrics.jsonl").read_text()
    for name in ("report.json", "result.json"):
        (run_dir / f"{name}.away").rename(run_dir / name)
    for name in ("report.html", "report.json", "result.json", "metrics.jsonl"):
        (run_dir / name).unlink()
    remake()
    assert "The training has not ended" in (run_dir / "report.html").read_text()
    (run_dir / "report.json").write_text('{"evaluated": {"metrics": {"mIoU": 0.125}}, "time": {}}')
    remake()
    assert "0.125" in Tags((run_dir / "report.html").read_text()).text
    for content, said in (("{", "report.json: cannot be read"), ('{"evaluated": "x"}', "are not those of a run")):
        (run_dir / "report.json").write_text(content)
        code, _, error = hires("report", f"run={run_dir}")
        assert (code, error.count("\n")) == (1, 1), error
        assert error.startswith(str(run_dir))
        assert said in error
    code, _, error = hires("report", f"run={run_dir / 'nothing'}")
    assert code == 1, error
    assert "not a run directory" in error


def test_a_report_that_fails_ends_no_training(run, monkeypatch):
    def fail(*given):
        raise ZeroDivisionError("of a page")

    monkeypatch.setattr(report, "page", fail)
    run_dir, out = run("trainer.max_steps=1")
    assert "report.html could not be made (ZeroDivisionError: of a page)" in out
    assert (run_dir / "result.json").exists()
    assert not (run_dir / "report.html").exists()


def test_finished_runs_side_by_side(run, hires, shapes_overrides, tmp_path):
    first, _ = run("trainer.max_steps=2")
    second = tmp_path / "other"
    run("optimizer.lr=0.05", "trainer.log_every=1", "trainer.max_steps=3", f"run_dir={second}")
    code, out, error = hires("compare", f"runs=[{first},{second}]", f"run_dir={tmp_path / 'both'}")
    assert code == 0, error
    found = read(tmp_path / "both" / "compare.json")
    assert list(found) == ["command", "run_dir", "runs", "differences"]
    assert list(found["runs"]) == ["run", "other"]
    assert all(set(each) == RUN for each in found["runs"].values())
    assert found["differences"]["optimizer.lr"] == {"run": "0.001", "other": "0.05"}
    assert set(found["differences"]) == {"optimizer.lr", "trainer.log_every", "trainer.max_steps"}
    assert [step for step, _ in found["runs"]["other"]["curves"]["loss"]] == [1, 2, 3]
    assert found["runs"]["run"]["metrics"]["mIoU"] == read(first / "result.json")["metrics"]["mIoU"]
    assert "other" in out
    text = Tags((tmp_path / "both" / "compare.html").read_text()).text
    for part in ("optimizer.lr", "0.05", "mIoU", "disc", "Peak memory"):
        assert part in text

    for name in ("result.json", "metrics.jsonl"):
        (second / name).unlink()
    for given, message, expected in [
        (f"[{first},{second}]", f"{second}: holds neither result.json nor a line in metrics.jsonl", 1),
        (f"[{first}]", "runs: got 1 of them, allowed: two run directories or more, for example runs=[", 2),
        (f"{first}", "allowed: two run directories or more", 2),
        (f"[{first},{first}]", f"runs: {first} is given twice", 2),
        (f"[{first},{tmp_path / 'nowhere'}]", f"{tmp_path / 'nowhere'}: not a run directory", 1),
    ]:
        code, _, error = hires("compare", f"runs={given}", f"run_dir={tmp_path / 'bad'}")
        assert (code, len(error.splitlines())) == (expected, 1)
        assert message in error
    code, _, error = hires("compare", f"runs=[{first},{second}]", "settings={a: [], b: []}")
    assert code == 2
    assert "settings: belongs to trainings that are still to be made" in error


def test_the_shortest_names_that_tell_runs_apart(tmp_path):
    assert names([tmp_path / "a" / "1", tmp_path / "a" / "2"]) == ["1", "2"]
    assert names([tmp_path / "a" / "1", tmp_path / "b" / "1"]) == ["a/1", "b/1"]


def test_how_much_is_said(run, hires, shapes_overrides, tmp_path):
    _, out = run("log_level=warning", "trainer.max_steps=1")
    assert out == ""
    assert "A step: micro-batches of 4" in (tmp_path / "run" / "train.log").read_text()
    code, _, error = hires("train", *shapes_overrides, "log_level=loud")
    assert (code, error) == (2, "log_level: got 'loud', allowed: warning, info, debug\n")
    code, out, error = hires("train", f"resume={tmp_path / 'run'}", "trainer.max_steps=2", "log_level=debug")
    assert code == 0, error
    assert "DEBUG hires.engine.display: step 2/2 is done" in out


def test_a_checkpoint_has_the_metrics_of_its_own_evaluation(tmp_path):
    lines = [{"kind": "evaluate", "step": step, "confidence": step / 100} for step in (10, 20, 30)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "result.json").write_text(json.dumps({"best": {"step": 20}, "steps": 30}))
    folder = tmp_path / "checkpoints"
    assert at_checkpoint(tmp_path, folder / "best.pt")["confidence"] == 0.2
    assert at_checkpoint(tmp_path, folder / "last.pt")["confidence"] == 0.3
    assert at_checkpoint(tmp_path, folder / "last.previous.pt") == {}
    assert at_checkpoint(tmp_path, tmp_path / "other" / "checkpoints" / "best.pt") == {}


def test_an_environment_is_shown_without_command_lines(tmp_path):
    start = {
        "kind": "resumed",
        "command": ["data.root=/home/jane"],
        "overrides": ["data.root=/home/jane"],
        "seed": 0,
    }
    start |= {"versions": {"torch": "2.14.1", "scipy": None}, "machine": {"gpus": [{"memory_bytes": 2**33}]}}
    (tmp_path / "environment.json").write_text(json.dumps({"starts": [{}, start]}))
    assert environment(tmp_path) == [
        ("starts", "2"),
        ("kind", "resumed"),
        ("seed", "0"),
        ("versions.torch", "2.14.1"),
        ("machine.gpus.0.memory", "8.00 GiB"),
    ]
    for odd in ("{}", '{"starts": 3}', '{"starts": [3]}', "[]"):
        (tmp_path / "environment.json").write_text(odd)
        first, *rows = environment(tmp_path)
        assert first == ("this page was made with", "")
        assert {"hires.version", "versions.torch", "machine.memory"} <= dict(rows).keys()
