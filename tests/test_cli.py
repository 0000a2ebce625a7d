"""The command line: what reaches a command, and the one line that a mistake gets."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from hires import cli, cli_errors
from hires.cli_compose import config_dir, parse
from hires.errors import ConfigError, DataError

ROOT = Path(__file__).resolve().parent.parent
Hires = Callable[..., tuple[int, str, str]]


class Calls(list[tuple[str, Any, list[str]]]):
    """(command, configuration, sys.argv) of every call of a command; `then` happens in each.

    `settings` are those of the last `compare`.
    """

    settings: Any = None

    def then(self, cfg: Any) -> None: ...


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Stands in for hires.build, and for the modules of commands that have their own."""
    made, module = Calls(), ModuleType("hires.build")

    def command(name: str) -> Callable[..., None]:
        def call(cfg: Any, settings: Any = None) -> None:
            made.append((name, OmegaConf.to_container(cfg, resolve=True), list(sys.argv)))
            made.settings = settings
            made.then(cfg)

        return call

    for name in cli.COMMANDS:
        setattr(module, name.replace("-", "_"), command(name))
    for place in ("hires.build", *cli.MODULES.values()):
        monkeypatch.setitem(sys.modules, place, module)
    return made


@pytest.fixture
def hires(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Hires:
    """Runs `hires ...` in an empty directory: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("HYDRA_FULL_ERROR", "HIRES_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        argv = ["hires", *arguments]
        monkeypatch.setattr(sys, "argv", argv)
        try:
            code = cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        assert sys.argv is argv
        return code, *capsys.readouterr()

    return run


def wrong(result: tuple[int, str, str], code: int = 2) -> str:
    """The one line on stderr of a call that failed."""
    given, out, err = result
    assert (given, out) == (code, ""), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.rstrip("\n")


def test_without_a_command_one_line_each(hires: Hires) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        code, out, _ = hires(*arguments)
        assert code == 0
        for name, text in cli.COMMANDS.items():
            assert any(name in line and text in line for line in out.splitlines())


def test_version(hires: Hires) -> None:
    assert hires("--version")[1].startswith("hires 0.")


def test_unknown_command(hires: Hires) -> None:
    message = f"trian: no such command; did you mean train? allowed: {', '.join(cli.COMMANDS)}"
    assert wrong(hires("trian", "seed=1")) == message


def test_a_command_gets_its_configuration_and_the_full_command_line(hires: Hires, calls: Calls) -> None:
    assert hires("train", "experiment=demo", "trainer.max_steps=7")[0] == 0
    (name, cfg, argv) = calls[0]
    assert (name, cfg["trainer"]["max_steps"], cfg["image_size"]) == ("train", 7, 256)
    assert argv == ["hires", "train", "experiment=demo", "trainer.max_steps=7"]
    assert "hydra" not in cfg
    assert os.listdir() == []


def test_flags_and_overrides_in_any_order(hires: Hires, calls: Calls) -> None:
    assert hires("evaluate", "run=x", "-m", "split=val,test", "evaluation.window=64,128")[0] == 0
    given = [(cfg["split"], cfg["evaluation"]["window"]) for _, cfg, _ in calls]
    assert given == [("val", 64), ("val", 128), ("test", 64), ("test", 128)]
    assert all(argv[1] == "evaluate" for _, _, argv in calls)


def test_a_users_own_experiment(hires: Hires, calls: Calls, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text("# @package _global_\n# Mine.\nbatch_size: 3\n")
    assert hires("train", "--config-dir", "mine", "experiment=own")[0] == 0
    assert calls[0][1]["batch_size"] == 3
    out = hires("train", "experiment=own", "--config-dir", "mine", "--help")[1]
    assert "experiment=own *" in out
    assert "Mine." in out
    assert "\n  batch_size=3\n" in out
    near = wrong(hires("train", "experiment=owm", "--config-dir", "mine"))
    assert near.startswith("experiment: got owm; did you mean experiment=own? allowed: ")
    assert near.endswith(", own")


def test_a_mistyped_key_of_an_experiment_file(hires: Hires, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    (folder / "top.yaml").write_text("# @package _global_\nbach_size: 3\n")
    (folder / "deep.yaml").write_text("# @package _global_\ntrainer: {max_stepz: 3}\n")
    (folder / "broken.yaml").write_text("# @package _global_\ntrainer: {max_steps: 3\n")
    (folder / "choice.yaml").write_text("# @package _global_\ndefaults:\n  - override /data: demmo\n")
    one = wrong(hires("train", "--config-dir", "mine", "experiment=top"))
    assert one.startswith("bach_size: no such key; did you mean batch_size? allowed: ")
    two = wrong(hires("train", "--config-dir", "mine", "experiment=deep"))
    assert two.startswith("trainer.max_stepz: no such key; did you mean trainer.max_steps?")
    assert "broken.yaml" in wrong(hires("train", "--config-dir", "mine", "experiment=broken"))
    four = wrong(hires("train", "--config-dir", "mine", "experiment=choice"))
    assert "data: got demmo; did you mean data=demo?" in four


TOP = "allowed: allow_targets, augmentation, backbone, batch_size, data, data_dir"


@pytest.mark.parametrize(
    ("override", "start"),
    [
        (
            "trainer.max_stepz=5",
            "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in trainer: accel",
        ),
        ("max_steps=5", f"max_steps: no such key; did you mean trainer.max_steps? {TOP}"),
        ("trainr.max_steps=5", f"trainr.max_steps: no such key; did you mean trainer.max_steps? {TOP}"),
        ("trainer.max_steps.x=5", "trainer.max_steps.x: no such key; trainer.max_steps is not a mapping"),
        ("trainer={max_stepz: 5}", "trainer.max_stepz: no such key; did you mean trainer.max_steps?"),
        ("modle=unet", f"modle: no such key; did you mean model? {TOP}"),
        ("model=unett", "model: got unett; did you mean model=unet? allowed: "),
        ("model=null", "model: got null; allowed: "),
        ("trainer=5", "trainer: got 5; allowed: default"),
        ("data=base", "data: got base; "),
        ("experiment=dema", "experiment: got dema; did you mean experiment=demo? allowed: "),
        ("+experiment=demo", "experiment: is chosen already; leave out the +"),
        ("++experiment=demo", "force-add of config groups is not supported: '++experiment=demo'"),
        ("~foo", "foo: no such key; "),
        ("~trainer", "trainer: has been removed, but is needed"),
        ("resume=runs/a=b", "resume: got runs/a=b, which cannot be read; a value with = "),
        ("foo", "foo: got no value; write KEY=VALUE"),
        ("=5", "=5: got no key; write KEY=VALUE"),
        (
            "data.classes={a",
            "data.classes: got {a, which cannot be read; are all brackets and quotes closed?",
        ),
        ("batch_size=1,2", "batch_size: got 1,2, several values; -m sweeps over them"),
        ("batch_size=${nope}", "batch_size: Interpolation key 'nope' not found"),
        ("batch_size=${oc.env:HIRES_NOPE}", "batch_size: KeyError raised while resolving interpolation"),
        ("data=mask_folder", "data.root: must be given, for example data.root="),
        ("+foo=1", f"foo: no such key; {TOP}"),
        ("++foo=1", f"foo: no such key; {TOP}"),
        ("+bach_size=1", f"bach_size: no such key; did you mean batch_size? {TOP}"),
        (
            "+trainer.max_stepz=5",
            "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in ",
        ),
        (
            "++trainer.max_stepz=5",
            "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in ",
        ),
        ("++trainer={max_stepz: 5}", "trainer.max_stepz: no such key; did you mean trainer.max_steps? "),
        ("+task.loss.dicee=5", "task.loss.dicee: no such key; did you mean task.loss.dice? "),
        ("+augmentation.transforms.0.q=1", "augmentation.transforms.0.q: no such key; allowed in "),
        ("+logger.mine=3", "logger.mine: got 3, allowed: a mapping with _target_"),
        (
            "grad_checkpointing=true",
            "grad_checkpointing: no such key; hires calls this activation checkpointing: ",
        ),
        (
            "+backbone.grad_checkpointing=true",
            "backbone.grad_checkpointing: no such key; hires calls this activ",
        ),
        (
            "++optimizer.arguments={gradient_checkpointing: true}",
            "optimizer.arguments: no such key; hires calls",
        ),
        ("hydra.foo=1", "hydra.foo: no such key; allowed in hydra: callbacks, "),
        ("--foo", "--foo: no such flag; did you mean "),
        ("--config-dir=nope", "--config-dir: got nope, which is not a directory"),
        ("--cfg=jobb", "hires train: argument --cfg/-c: invalid choice: 'jobb'"),
        ("--resolve", "The --resolve flag can only be used in conjunction with --cfg"),
    ],
)
def test_mistakes(override: str, start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("train", override)).startswith(start)
    assert calls == []


def test_the_quotes_that_a_message_asks_for_work(hires: Hires, calls: Calls) -> None:
    assert """resume='"runs/a=b"'""" in wrong(hires("train", "resume=runs/a=b"))
    assert hires("train", 'resume="runs/a=b"')[0] == 0
    assert calls[0][1]["resume"] == "runs/a=b"


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("++trainer.max_steps=5", "trainer.max_steps", 5),
        ("+data.classes.crack=7", "data.classes.crack", 7),
        ("+optimizer.arguments.amsgrad=true", "optimizer.arguments.amsgrad", True),
        ("++optimizer.arguments={betas: [0.9, 0.95]}", "optimizer.arguments.betas", [0.9, 0.95]),
        ("+data.splits.extra=0.1", "data.splits.extra", 0.1),
        ("augmentation.transforms.0.p=0.5", "augmentation.transforms.0.p", 0.5),
        ("+logger.b={_target_: lightning_fabric.loggers.CSVLogger, root_dir: x}", "logger.b.root_dir", "x"),
        ("run_dir=runs/grad_checkpointing", "run_dir", "runs/grad_checkpointing"),
        ("~logger.csv", "logger.csv", None),
    ],
)
def test_what_may_be_changed_or_added(override: str, key: str, value: Any, hires: Hires, calls: Calls) -> None:
    assert hires("train", override)[0] == 0
    assert OmegaConf.select(OmegaConf.create(calls[0][1]), key) == value


@pytest.mark.slow
def test_every_option_of_every_group_passes_the_checks(hires: Hires, calls: Calls) -> None:
    formats = ("coco", "coco_masks", "csv", "labelme", "labelme_masks", "voc", "xyxy", "yolo")
    given = dict.fromkeys(formats, ["data.root=x"])
    given |= dict.fromkeys(("geojson", "geojson_masks"), ["data.root=x", "data.classes=[a]"])
    given |= {"mask_folder": ["data.root=x", "data.classes={a: 0}"]}
    given |= {"instance_masks": ["data.root=x", "data.classes=[a]"]}
    for group, options in parse("train", []).groups().items():
        for option in options if group != "hydra" else ():
            code, _, err = hires("train", f"{group}={option}", *given.get(option, ()))
            assert code == 0, err


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ([], "run: must be given, for example run=runs/"),
        (["run=x", "model=unet"], "model: no such key; allowed: allow_targets, checkpoint"),
        (["run=x", "+model=unet"], "model: no such key; allowed: allow_targets, checkpoint"),
        (["run=x", "evaluation.fitt=1"], "evaluation.fitt: no such key; did you mean evaluation.fit? "),
        (["run=x", "+evaluation.foo=1"], "evaluation.foo: no such key; allowed in evaluation: batch_size"),
    ],
)
def test_mistakes_in_evaluate(arguments: list[str], start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("evaluate", *arguments)).startswith(start)
    assert calls == []


def test_settings_get_the_command_line_and_their_own_overrides(hires: Hires, calls: Calls) -> None:
    given = "settings={a: [], b: [optimizer=sgd, ++memory.activation_checkpointing.stage2=full], c: ['seed=7']}"
    assert hires("compare", "-m", given, "seed=3,4", "optimizer.lr=1")[0] == 0
    assert [cfg["seed"] for _, cfg, _ in calls] == [3, 4]
    a, b, c = (setting.cfg for setting in calls.settings.values())
    assert [cfg.seed for cfg in (a, b, c)] == [4, 4, 7]
    assert [cfg.optimizer.name for cfg in (a, b, c)] == ["adamw", "nesterov", "adamw"]
    assert b.memory.activation_checkpointing.stage2 == "full"
    assert b.optimizer.lr == 1
    assert "hydra" not in a
    assert hires("compare")[0] == 0
    policies = {name: setting.cfg.memory.activation_checkpointing for name, setting in calls.settings.items()}
    assert policies == {"none": "none", "full": "full"}


def test_settings_of_a_users_own_experiment(hires: Hires, calls: Calls, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    text = "# @package _global_\nsettings:\n  '<a>': []\n  b: [trainer.max_steps=7, experiment=demo]\n"
    (folder / "own.yaml").write_text(text)
    assert hires("compare", "--config-dir", "mine", "experiment=own")[0] == 0
    assert [setting.cfg.image_size for setting in calls.settings.values()] == [512, 256]
    assert calls.settings["b"].overrides == ["trainer.max_steps=7", "experiment=demo"]


@pytest.mark.parametrize(
    ("override", "start"),
    [
        ("trainer.max_stepz=5", "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in trai"),
        ("++trainer.max_stepz=5", "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in "),
        ("+bach_size=5", "bach_size: no such key; did you mean batch_size? allowed: "),
        ("optimizer=sdg", "optimizer: got sdg; did you mean optimizer=sgd? allowed: "),
        ("experiment=dema", "experiment: got dema; did you mean experiment=demo? allowed: "),
        ("foo", "foo: got no value; write KEY=VALUE"),
        ("'batch_size=1,2'", "batch_size: got 1,2, several values; "),
        ("data=mask_folder", "data.root: must be given, for example data.root="),
        (
            "grad_checkpointing=true",
            "grad_checkpointing: no such key; hires calls this activation checkpointing: ",
        ),
        ("steps=5", "steps: is the same for all settings; give it on the command line itself"),
        ("allow_targets=[os.]", "allow_targets: is the same for all settings; "),
        ("+hydra.callbacks.x=1", "hydra.callbacks.x: is the same for all settings; "),
    ],
)
def test_mistakes_in_settings(override: str, start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("compare", f"settings={{a: [], b: [{override}]}}")).startswith(f"settings.b: {start}")
    assert calls == []


@pytest.mark.parametrize(
    ("override", "start"),
    [
        (
            "settings=5",
            "settings: got 5, allowed: null, or two and more by name, for example 'settings={none: [], ",
        ),
        ("settings={a: []}", "settings: got 1 of them, allowed: null, or two and more by name"),
        ("settings={a: [], b: x}", "settings.b: got 'x', allowed: a list of overrides, as in 'settings={none: "),
        ("settings={a: [b=1", "settings: got {a: ['b=1', which cannot be read"),
        ("stepz=5", "stepz: no such key; did you mean steps? allowed: allow_targets, augmentation, backbone"),
        ("+foo=5", "foo: no such key; allowed: allow_targets, augmentation, backbone, batch_size, data"),
        ("~trainer", "trainer: has been removed, but is needed"),
    ],
)
def test_mistakes_in_compare(override: str, start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("compare", override)).startswith(start)
    assert calls == []


def test_the_checkpointing_hint_stays_true() -> None:
    """Once the memory group has the key, the hint says to set it."""
    request = parse("train", ["grad_checkpointing=true"])
    with pytest.raises(ConfigError, match="memory.activation_checkpointing"):
        cli_errors.check_overrides(request)
    base = OmegaConf.create({"memory": {"activation_checkpointing": "none"}})
    (hint,) = cli_errors.checkpointing("grad_checkpointing=true", base)
    assert hint.endswith("activation checkpointing: set memory.activation_checkpointing")


@pytest.mark.parametrize("target", ["os.system", "hires.cli.os.system", "builtins.eval", "torch.hub.load"])
@pytest.mark.parametrize(
    "override",
    [
        "augmentation.transforms=[{{_target_: {0}, _args_: ['touch {1}']}}]",
        "augmentation.transforms.0._target_={0}",
        "++trainer._target_={0}",
        "+logger.mine={{_target_: {0}, _args_: ['touch {1}']}}",
        "++optimizer.arguments.x=[[{{_target_: {0}, _args_: ['touch {1}']}}]]",
    ],
)
def test_targets_from_anywhere_are_refused(target: str, override: str, hires: Hires, tmp_path: Path) -> None:
    message = wrong(hires("train", override.format(target, tmp_path / "trace")))
    assert f"'{target}' is not allowed" in message
    assert os.listdir(tmp_path) == []


def test_only_the_command_line_allows_targets(hires: Hires, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "guest.py").write_text("class Logger:\n    def __init__(self, a=1): ...\n")
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    text = "# @package _global_\nlogger: {mine: {_target_: guest.Logger}}\n"
    spoofs = ["", "allow_targets: [guest.]\n", "hydra: {overrides: {task: ['allow_targets=[guest.]']}}\n"]
    for number, spoof in enumerate(spoofs):
        (folder / f"e{number}.yaml").write_text(text + spoof)
        asked = ["train", "--config-dir", "mine", f"experiment=e{number}"]
        assert "'guest.Logger' is not allowed" in wrong(hires(*asked))
        assert "guest" not in sys.modules
    assert hires(*asked, "allow_targets=[guest.]")[0] == 0
    sys.modules.pop("guest")


@pytest.mark.parametrize(
    "text",
    [
        "callbacks: {x: {_target_: guest.Callback}}",
        "launcher: {_target_: guest.Callback}",
        "sweeper: {_target_: guest.Callback}",
        "callbacks: {x: '${oc.create:{_target_: guest.Callback}}'}",
        "callbacks: {x: {_target_: hydra.utils.instantiate, config: {_target_: guest.Callback}}}",
        "launcher: {_target_: hydra_plugins.x.os.system}",
        "job_logging: {version: 1, handlers: {x: {class: guest.Callback}}, root: {handlers: [x]}}",
        "job_logging: {handlers: {x: {class: logging.FileHandler, filename: mine/trace, mode: w}}}",
        "hydra_logging: {version: 1, handlers: {x: {(): guest.Callback}}, root: {handlers: [x]}}",
    ],
)
def test_a_file_cannot_make_hydra_call_anything(
    text: str, hires: Hires, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "guest.py").write_text("raise SystemExit(7)")
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    (folder / "e.yaml").write_text(f"# @package _global_\nhydra:\n  {text}\n")
    for mode in ([], ["-m", "seed=1,2"]):
        message = wrong(hires("train", "--config-dir", "mine", "experiment=e", *mode))
        assert "is not allowed; allow_targets=" in message or "cannot be changed" in message
    assert calls == []
    assert not (tmp_path / "mine" / "trace").exists()


def test_errors_of_a_command(hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> Callable[[Any], None]:
        def raising(cfg: Any) -> None:
            raise error

        return raising

    monkeypatch.setattr(calls, "then", fail(ConfigError("trainer.max_steps: got 0\nallowed: more")))
    assert wrong(hires("evaluate", "run=x")) == "trainer.max_steps: got 0 allowed: more"
    monkeypatch.setattr(calls, "then", fail(DataError("a.png: truncated")))
    assert wrong(hires("evaluate", "run=x"), code=1) == "a.png: truncated"
    monkeypatch.setattr(calls, "then", fail(KeyboardInterrupt()))
    assert hires("evaluate", "run=x") == (130, "", "")
    for bug in (ValueError("a bug"), KeyError("a bug")):
        monkeypatch.setattr(calls, "then", fail(bug))
        with pytest.raises(type(bug), match="a bug"):
            hires("evaluate", "run=x")
    assert "HYDRA_FULL_ERROR" not in os.environ


def test_one_wrong_job_does_not_stop_a_sweep(hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(cfg: Any) -> None:
        if cfg.split == "b":
            raise ConfigError("split: got b")

    monkeypatch.setattr(calls, "then", odd)
    code, _, err = hires("evaluate", "-m", "run=x", "split=a,b,c")
    assert (code, err) == (2, "job 1: split: got b\n")
    assert [cfg["split"] for _, cfg, _ in calls] == ["a", "b", "c"]
    (sweep,) = Path("runs/sweeps").iterdir()
    assert os.listdir(sweep) == ["multirun.yaml"], "directories are made by the jobs that need one"


SHORT = [
    (MemoryError(), "MemoryError"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory:\n12 bytes."), "can't allocate memory: 12 bytes;"),
]


@pytest.mark.parametrize(("error", "message"), SHORT)
def test_short_memory_ends_in_a_line(
    error: Exception, message: str, hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch  # noqa: F401  what cannot be told without it is told where a command has imported it

    def fail(cfg: Any) -> None:
        if cfg.split != "b":
            raise error

    monkeypatch.setattr(calls, "then", fail)
    said = wrong(hires("evaluate", "run=x"), code=1)
    assert said.startswith("memory ran out: ")
    assert message in said
    code, _, err = hires("evaluate", "-m", "run=x", "split=a,b")
    assert (code, err) == (1, f"job 0: {said}\n")
    assert len(calls) == 3
    monkeypatch.setenv("HIRES_DEBUG", "1")
    assert "Traceback" in hires("evaluate", "run=x")[2]


@pytest.mark.parametrize("variable", ["HYDRA_FULL_ERROR", "HIRES_DEBUG"])
def test_a_traceback_on_request(variable: str, hires: Hires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    code, _, err = hires("train", "trainer.max_stepz=5")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("trainer.max_stepz: no such key")
    assert os.environ[variable] == "1"


def test_the_users_environment_in_a_command(hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(calls, "then", lambda cfg: seen.append(os.environ.get("HYDRA_FULL_ERROR")))
    hires("evaluate", "run=x")
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    hires("evaluate", "run=x")
    assert seen == [None, "1"]


def test_hydras_own_flags(hires: Hires) -> None:
    code, out, _ = hires("train", "--cfg", "job", "-p", "trainer", "trainer.max_steps=5")
    assert code == 0
    assert yaml.safe_load(out)["max_steps"] == 5
    code, out, _ = hires("train", "--hydra-help")
    assert code == 0
    assert "--shell-completion" in out


def test_shell_completion(hires: Hires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "hires tr")
    assert hires("-sc", "query=bash")[1].split() == list(cli.COMMANDS)
    monkeypatch.setenv("COMP_LINE", "hires train trainer.max_")
    assert hires("-sc", "query=bash")[1].split() == ["trainer.max_epochs=", "trainer.max_steps="]
    monkeypatch.delenv("COMP_LINE")
    assert "complete" in hires("-sc", "install=bash")[1]


def keys_of(node: Any, prefix: str = "") -> list[str]:
    """Dotted keys of a YAML file; a mapping within a line is one value."""
    if not isinstance(node, yaml.MappingNode) or (node.flow_style and prefix):
        return [prefix.rstrip(".")]
    pairs = [(k.value, v) for k, v in node.value if k.value not in ("_target_", "defaults", "hydra")]
    return [key for name, value in pairs for key in keys_of(value, f"{prefix}{name}.")]


@pytest.mark.parametrize("columns", ["70", "100"])
def test_help_shows_every_key(columns: str, hires: Hires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = hires("train", "--help")
    assert max(map(len, out.splitlines())) <= max(int(columns), 100)
    for path in [config_dir() / "train.yaml", *config_dir().glob("*/*.yaml")]:
        group = "" if path.stem == "train" else f"{path.parent.name}."
        if group in ("experiment.", "launcher."):
            continue
        for key in keys_of(yaml.compose(path.read_text()), group):
            parent = key.rpartition(".")[0]
            assert f"\n  {key}=" in out or f"\n  {parent}={{" in out or key.rstrip(".") == group.rstrip("."), key


def test_help_of_a_command(hires: Hires) -> None:
    code, out, _ = hires("train", "--help")
    assert code == 0
    assert out.startswith(cli.COMMANDS["train"])
    assert "Usage: hires train [GROUP=OPTION ...] [KEY=VALUE ...]" in out
    assert out.count("\n  hires train ") == 3
    words = " ".join(out.split())
    assert "model=unet * U-Net decoder (segmentation-models-pytorch) on any backbone." in words
    assert "optimizer=sgd SGD with Nesterov momentum" in words
    assert "optimizer.lr=0.001 Peak learning rate." in words
    assert "data.window.focus=0.5 Share of the windows that contain a rare class, or with boxes" in words
    assert "_target_:" not in out.replace("[{_target_: ", "")


def test_help_honours_choices(hires: Hires) -> None:
    words = " ".join(hires("train", "optimizer=sgd", "experiment=demo", "--help")[1].split())
    assert "optimizer=sgd *" in words
    assert "optimizer.name=nesterov timm optimizer name." in words
    assert "evaluation.window=512 Side of a window" in words
    assert wrong(hires("train", "--help", "optimizer=sdg")).startswith("optimizer: got sdg; did you mean ")


def test_help_of_evaluate(hires: Hires) -> None:
    _, out, _ = hires("evaluate", "--help")
    for key in keys_of(yaml.compose((config_dir() / "evaluate.yaml").read_text())):
        assert f"\n  {key}=" in out
    assert out.count("\n  hires evaluate ") == 3
    assert "Groups" not in out


def test_help_of_compare(hires: Hires) -> None:
    _, out, _ = hires("compare", "--help")
    for key in (
        "runs",
        "settings",
        "steps",
        "evaluate",
        "measure_memory",
        "run_dir",
        "trainer.max_steps",
        "image_size",
    ):
        assert f"\n  {key}=" in out
    assert out.count("\n  hires compare ") == 3


def python(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_help_and_mistakes_need_no_torch(tmp_path: Path) -> None:
    setting = ["compare", "settings={a: [], b: [trainer.max_stepz=5]}"]
    mistakes = (["train", "trainer.max_stepz=5"], ["evaluate"], setting)
    for arguments in (["--help"], ["train", "--help"], *mistakes):
        code = f"""
import sys
sys.argv = ["hires", *{arguments!r}]
from hires import cli
cli.main()
heavy = [m for m in ("torch", "cv2", "numpy", "albumentations", "lightning_fabric") if m in sys.modules]
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
        done = python("-c", code, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_real_processes(tmp_path: Path) -> None:
    for script in (["-m", "hires.cli", "train"], [str(ROOT / "tools" / "train.py")]):
        done = python(*script, "trainer.max_stepz=5", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("trainer.max_stepz: no such key; did you mean trainer.max_steps?")
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
    done = python(str(ROOT / "tools" / "train.py"), "--info", "defaults", "model=unet", cwd=tmp_path)
    assert done.returncode == 0
    assert "trainer/default" in done.stdout
    done = python(str(ROOT / "tools" / "evaluate.py"), "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "hires evaluate" in done.stdout
    assert os.listdir(tmp_path) == []


def test_a_wrong_value_ends_the_real_command(tmp_path: Path) -> None:
    done = python("-m", "hires.cli", "train", "trainer.max_steps=abc", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "trainer.max_steps: got 'abc', allowed: a whole number" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_a_script_too(name):
    script = Path(__file__).parent.parent / "tools" / f"{name.replace('-', '_')}.py"
    assert f'run_command("{name}"' in script.read_text()
