"""The commands of README.md and docs/howto: they are understood, and all but those marked as not run work."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hires import api, instantiate
from hires.cli.compose import composed
from hires.errors import ConfigError
from hires.request import parse
from tests.docs.pages import NOT_RUN, PAGES, Block, Command, blocks, commands
from tests.docs.shrinking import Absent, Places, completed, known, shrunk, single

Hires = Callable[..., tuple[int, str, str]]
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data sets that pages name are made."""
    return tmp_path_factory.mktemp("data")


def keep_files(page: Path, folder: Path) -> None:
    """Writes the files that a page tells its reader to make."""
    for block in blocks(page):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


def understood(command: Command) -> None:
    """Composes and checks the configuration of a command, running nothing. Raises ConfigError."""
    name = known(command)
    if name is None or name.startswith("-"):
        return
    words = [re.sub(r"<\w+>", "NAME", word) for word in completed(command)]
    words = [word for word in words if not word.startswith("run_config=")]  # whose run is not there
    if "--config-dir" in words and words[words.index("--config-dir") + 1] == "RUN":
        return  # what a command proposes exists when it has run
    request = parse(name, words)
    folder = request.flags.config_dir
    alone = parse(name, [*(["--config-dir", folder] if folder else []), *single(request)])
    cfg, _ = composed(alone)
    instantiate.check(cfg, "", tuple(cfg.allow_targets))


@by_page
def test_every_command_is_understood(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    keep_files(page, tmp_path)
    for block in blocks(page):
        for command in commands(block) if block.shell and block.run else ():
            try:
                understood(command)
            except ConfigError as error:
                raise AssertionError(f"{command}\n{error}") from error


def last(text: str) -> str:
    """The line by which a command ends."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


class Reader:
    """Does what a page says, from top to bottom, in one folder."""

    def __init__(self, folder: Path, sets: Path, hires: Hires, monkeypatch: pytest.MonkeyPatch):
        self.folder, self.hires, self.monkeypatch = folder, hires, monkeypatch
        self.places = Places(folder, sets, lambda words: self.call("train", words))
        self.left_out: list[str] = []
        self.names: dict[str, object] = {}

    def read(self, page: Path) -> None:
        for block in blocks(page):
            if not block.run or block.file:
                continue
            if block.shell:
                for command in commands(block):
                    self.obey(command)
            elif block.kind == "python":
                self.execute(block)

    def obey(self, command: Command) -> None:
        name = known(command)
        if name is None:
            return
        for key, value in command.variables.items():
            assert (key, value) == ("PYTHONPATH", "."), f"{command.place}: {key}={value} is not known to the tests"
        try:
            words = self.places.resolved(name, completed(command))
        except Absent as reason:
            self.left_out.append(f"{command.place}: {reason}")
            return
        if name.startswith("-"):
            assert self.hires(name, *words)[0] == 0, command
        else:
            self.call(name, words, str(command))

    def call(self, name: str, words: list[str], told: str = "") -> None:
        given = shrunk(name, words)
        self.places.fill(name, given)
        code, _, err = self.hires(name, *given)
        assert code == 0, f"{told}\nended with {code}: hires {name} {' '.join(given)}\n{last(err)}"

    def execute(self, block: Block) -> None:
        """Runs Python; a page's examples share their names, as the cells of a notebook do."""
        exec(compile(block.text, f"{block.page}:{block.line}", "exec"), self.names)


@pytest.mark.slow
@by_page
def test_every_command_works(
    page: Path, sets: Path, tmp_path: Path, hires: Hires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("HIRES_DATA", raising=False)
    train, plan = api.train, api.plan
    monkeypatch.setattr(api, "train", lambda *words: train(*shrunk("train", list(words))))
    monkeypatch.setattr(api, "plan", lambda *words: plan(*shrunk("autobatch", list(words))))
    keep_files(page, tmp_path)
    reader = Reader(tmp_path, sets, hires, monkeypatch)
    reader.read(page)
    if reader.left_out:
        pytest.skip(f"run but for {'; '.join(reader.left_out)}")


def block_of(tmp_path: Path, *lines: str) -> Block:
    page = tmp_path / "page.md"
    page.write_text("\n".join(["# A page", "", *lines, ""]))
    (found,) = blocks(page)
    return found


def test_a_command_over_several_lines_is_one(tmp_path: Path) -> None:
    block = block_of(
        tmp_path, "```sh", "hires train seed=1 \\", "  'data.classes={a: 0}'  # said so", "", "make", "```"
    )
    first, second = commands(block)
    assert first.words == ["hires", "train", "seed=1", "data.classes={a: 0}"]
    assert (first.place, second.place, second.words) == ("page.md:4", "page.md:7", ["make"])


def test_overrides_alone_are_those_of_a_training(tmp_path: Path) -> None:
    (command,) = commands(block_of(tmp_path, "```sh", "PYTHONPATH=. data.bands=[8,4,3]", "```"))
    assert command.words == ["hires", "train", "data.bands=[8,4,3]"]
    assert command.variables == {"PYTHONPATH": "."}
    assert completed(command)[:2] == ["data=mask_folder", "data.root=/data/scenes"]


def test_boxes_get_a_detector_where_a_line_says_nothing_of_the_model(tmp_path: Path) -> None:
    bare, whole = commands(block_of(tmp_path, "```sh", "data=yolo", "hires train data=yolo", "```"))
    assert completed(bare) == ["model=fcos", "data=yolo"]
    assert completed(whole) == ["data=yolo"]


def test_a_marked_block_is_left_alone(tmp_path: Path) -> None:
    assert not block_of(tmp_path, NOT_RUN, "```sh", "sbatch job", "```").run
    assert block_of(tmp_path, "```sh", "sbatch job", "```").run


@pytest.mark.parametrize("line", ["sbatch job.sh", "hires fly run=RUN", "python tools/fly.py"])
def test_an_unknown_command_says_what_to_do(tmp_path: Path, line: str) -> None:
    (command,) = commands(block_of(tmp_path, "```sh", line, "```"))
    with pytest.raises(AssertionError, match=r"page.md:4: .*[\s\S]*not known[\s\S]*<!-- not run -->"):
        known(command)


def test_a_wrong_key_is_found_without_running(tmp_path: Path) -> None:
    (command,) = commands(block_of(tmp_path, "```sh", "hires train trainer.max_stepz=3", "```"))
    with pytest.raises(ConfigError, match="did you mean trainer.max_steps"):
        understood(command)


def test_the_files_of_a_page_are_made(tmp_path: Path) -> None:
    block = block_of(tmp_path, "Into `my_configs/model/mine.yaml`:", "", "```yaml", "a: 1", "```")
    assert (block.file, block.text) == ("my_configs/model/mine.yaml", "a: 1\n")
