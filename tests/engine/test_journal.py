"""Records: none is lost while the disk is full, none is there twice after a resume, no logger ends a training."""

import csv
import json
import logging
import threading

import pytest

from hires.engine import loggers
from hires.engine.file_log import FileLog
from hires.engine.files import Lines
from hires.engine.journal import Journal
from tests.files import files_up_to

FULL = 300  # bytes, of about 60 a record


def steps(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def record(journal, *numbers):
    for step in numbers:
        journal.record("train", step, {"loss": step / 2})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def csv_logger(folder):
    from lightning_fabric.loggers import CSVLogger

    return CSVLogger(folder, name="csv", version="", flush_logs_every_n_steps=1)


def table(folder):
    with open(folder / "csv" / "metrics.csv", newline="") as file:
        return [(int(row["step"]), float(row["train/loss"])) for row in csv.DictReader(file)]


def event_logger(folder):
    from lightning_fabric.loggers import TensorBoardLogger

    return TensorBoardLogger(folder, name="tensorboard", version="")


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return [event.step for event in found.Scalars("train/loss")]


def test_records_wait_while_the_disk_is_full(path, caplog):
    caplog.set_level(logging.INFO, "hires")
    journal = Journal(path, [])
    with files_up_to(FULL):
        record(journal, *range(1, 21))
        assert journal.state_dict() == {"records": 20}
    assert path.stat().st_size == FULL  # half a record at its end
    assert [("wait" in said) for said in caplog.messages] == [True]
    record(journal, 21)
    assert steps(path) == list(range(1, 22))
    assert "written again" in caplog.messages[-1]


def test_what_cannot_be_written_at_all_is_told_at_the_end(path, caplog):
    journal = Journal(path, [])
    path.mkdir()
    with caplog.at_level(logging.ERROR, "hires"):
        record(journal, 1, 2)
        journal.close()
    assert "Is a directory" in caplog.messages[0]
    assert "2 records could not be written" in caplog.messages[1]


def test_memory_for_what_waits_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(Lines, "LIMIT", 100)
    lines = Lines(tmp_path)
    for _ in range(50):
        lines.add("0123456789")
    assert (lines.waiting, lines.lost) == (10, 40)


def test_rewinding_keeps_what_the_checkpoint_knows(path):
    """An evaluation that was written and not saved is made again: by its step alone it would be there twice."""
    journal = Journal(path, [])
    record(journal, 1, 2)
    saved = journal.state_dict()
    journal.record("evaluate", 2, {"mIoU": 0.5})
    with open(path, "a") as file:
        file.write('{"kind": "tr')
    again = Journal(path, [])
    again.load_state_dict(saved)
    again.rewind(2)
    again.record("evaluate", 2, {"mIoU": 0.5})
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["train", "train", "evaluate"]
    assert again.state_dict() == {"records": 3}


def test_records_that_the_checkpoint_knows_and_the_file_lacks_are_told(path, caplog):
    journal = Journal(path, [])
    record(journal, 1)
    journal.load_state_dict({"records": 3})
    journal.rewind(9)
    assert "lacks 2 records up to step 9" in caplog.text


@pytest.mark.parametrize(("make", "read"), [(csv_logger, table), (event_logger, events)])
def test_loggers_of_a_resumed_run_have_each_step_once(tmp_path, path, recwarn, make, read):
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    journal = Journal(path, [make(stopped)])
    record(journal, 1, 2)
    saved = journal.state_dict()
    record(journal, 3, 4)
    journal.loggers[0].logger.save()  # and killed
    again = Journal(path, [make(stopped)])
    again.load_state_dict(saved)
    again.rewind(2)
    record(again, 3, 4, 5)
    again.close()
    uninterrupted = Journal(tmp_path / "other.jsonl", [make(whole)])
    record(uninterrupted, 1, 2, 3, 4, 5)
    uninterrupted.close()
    assert read(stopped) == read(whole)
    assert not [each for each in recwarn if "Experiment logs" in str(each.message)]


def test_a_table_is_whole_again_after_the_disk_was_full(tmp_path, path, caplog):
    journal = Journal(path, [csv_logger(tmp_path)])
    record(journal, 1, 2)
    with files_up_to(60):
        record(journal, *range(3, 20))
    record(journal, 20)
    assert table(tmp_path) == [(step, step / 2) for step in range(1, 21)]
    assert sum("CSVLogger" in said for said in caplog.messages) == 1


def test_events_go_on_after_their_thread_has_ended(tmp_path, path, caplog, monkeypatch):
    said = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    monkeypatch.setattr(loggers, "_quiet", loggers._Quiet())  # other tests leave loggers open
    logger = event_logger(tmp_path)
    journal = Journal(path, [logger])
    record(journal, 1)
    logger.experiment.flush()
    with files_up_to(1):
        record(journal, 2)
        with pytest.raises(OSError, match="large"):
            logger.experiment.flush()
        record(journal, 3, 4)
    record(journal, 5, 6)
    journal.close()
    assert steps(path) == [1, 2, 3, 4, 5, 6]
    assert {5, 6} <= set(events(tmp_path))
    assert "TensorBoardLogger: cannot log (" in caplog.text
    assert not said  # no traceback of the thread
    assert threading.excepthook == said.append


def test_a_run_in_which_nothing_more_happens_gets_no_more_files(tmp_path, path):
    journal = Journal(path, [event_logger(tmp_path)])
    record(journal, 1)
    journal.close()
    before = sorted(tmp_path.rglob("*"))
    again = Journal(path, [event_logger(tmp_path)])
    again.rewind(1)
    again.close()
    assert sorted(tmp_path.rglob("*")) == before


class Lost:
    """A logger whose server is gone, for a while."""

    def __init__(self):
        self.gone, self.got = True, []

    def log_metrics(self, metrics, step=None):
        if self.gone:
            raise ConnectionError("no route")
        self.got.append(step)

    def finalize(self, status):
        raise ConnectionError("no route")


def test_a_logger_that_fails_is_told_once_and_tried_again(path, caplog):
    logger = Lost()
    journal = Journal(path, [logger])
    with caplog.at_level(logging.INFO, "hires"):
        record(journal, 1, 2)
        logger.gone = False
        record(journal, 3, 4)
        journal.close()
    assert logger.got == [3, 4]
    assert caplog.messages == [
        "Lost: cannot log (no route); metrics.jsonl has its records",
        "Lost: logs again",
        "Lost: cannot log (no route); metrics.jsonl has its records",
    ]


def test_the_log_waits_while_the_disk_is_full(tmp_path, capsys):
    handler = FileLog(tmp_path / "train.log")
    logger = logging.getLogger("hires.test_log")
    logger.addHandler(handler)
    with files_up_to(40):
        for number in range(20):
            logger.warning("line %d", number)
    logger.warning("line 20")
    logger.removeHandler(handler)
    assert (tmp_path / "train.log").read_text() == "".join(f"line {number}\n" for number in range(21))
    assert "Traceback" not in capsys.readouterr().err
