"""`make bench`: all measurements in order, a line for each at the end, also where one fails."""

import json
import re
import sys

import pytest

from tests.conftest import REPOSITORY

BENCH = REPOSITORY / "tools" / "bench"
PARTS = {"run_all", "tables", "peers_ours", "peers_run"}
"""Scripts that are not measurements of their own."""


@pytest.fixture
def load(monkeypatch):
    """Imports a module of tools/bench."""
    monkeypatch.syspath_prepend(str(BENCH))

    def load(name):
        monkeypatch.delitem(sys.modules, name, raising=False)
        return __import__(name)

    return load


def test_every_measurement_has_its_turn(load):
    scripts = {path.stem for path in BENCH.glob("*.py") if "__main__" in path.read_text()}
    order = load("run_all").ORDER
    assert len(order) == len(set(order))
    assert scripts - PARTS == set(order)
    assert re.search(r"run_all\.py \$\(BENCHES\) -- \$\(ARGS\)", (REPOSITORY / "Makefile").read_text())


def test_a_line_for_each_also_after_one_that_fails(load, tmp_path, capfd):
    scripts = {
        "quick": "import sys; print('first'); print('ratio 1.02 with', *sys.argv[1:])",
        "broken": "print('so far'); raise SystemExit(3)",
        "silent": "",
        "tables": "print('2 documents changed')",
    }
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    module = load("run_all")
    names = ("broken", "quick", "silent")
    code = module.run_all(names, ["--pairs", "3"], run=lambda *words: module.run(*words, folder=tmp_path))
    lines = capfd.readouterr().out.splitlines()
    assert code == 1
    assert "first" in lines  # what a bench prints is passed on
    shown = [re.sub(r" +[\d.]+ s  ", ": ", line) for line in lines[-4:]]
    assert shown == [
        "broken: failed with code 3; so far",
        "quick: ratio 1.02 with --pairs 3",
        "silent: nothing new",
        "tables: 2 documents changed",
    ]


def test_a_measurement_that_is_not_there_is_named(load, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run_all.py", "lodaer", "--", "--pairs", "3"])
    with pytest.raises(SystemExit, match="no bench lodaer; there are train_step"):
        load("run_all").main()


def test_results_say_when_and_how_they_were_made(load, tmp_path):
    results = load("results")
    results.write(tmp_path / "new" / "bench.json", {**results.conditions(), "ratio": 1.5})
    content = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"])
    assert results.said(content).startswith(f"made {content['date']}, torch {content['torch']}")
    assert results.said({"threads": 2, "committed": "2026-11-30"}) == "made by 2026-11-30, 2 threads"
    assert results.said({"torch": "2.14.1+cu130"}) == "day not recorded, torch 2.14.1"
    rows = [{"date": "2026-12-02"}, {"date": "2026-12-01"}]
    assert results.made(rows) == "made 2026-12-01 to 2026-12-02"
    assert results.made([*rows, {}]) == "made by 2026-12-02, some on days not recorded"
