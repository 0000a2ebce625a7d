"""Starts the processes of a training, or joins those that torchrun or SLURM has started."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from lightning_fabric.strategies import DDPStrategy

from hires.engine.fabric import accelerator_there, precision_plugin
from hires.engine.others import Others, end_with_first, part_from_first, start_others
from hires.engine.ranks import Alone, Ranks, Several, talking
from hires.engine.settings import TrainerSettings
from hires.engine.slurm import count
from hires.engine.stopping import SIGNALS
from hires.interfaces import ConfigError

_SET = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE")
"""What starting the others leaves in the environment."""
_BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
"""What is no tensor of a device goes by the CPU, so that the host does not have to wait for the device."""


def processes_here(trainer: TrainerSettings) -> int:
    """Processes of a training on this machine."""
    if trainer.devices != "auto":
        return trainer.devices
    started = started_from_outside()
    if started:
        return started["here"]
    cuda = trainer.accelerator != "cpu" and torch.cuda.is_available()
    return torch.cuda.device_count() if cuda else 1


def processes(trainer: TrainerSettings) -> int:
    """Processes of a training on all machines."""
    return processes_here(trainer) * trainer.num_nodes


def launch(trainer: TrainerSettings) -> tuple[Fabric | None, Ranks]:
    """The processes of a training, and the device of this one; None for one process, which takes it when needed.

    The process that the user started starts the others of its machine by its own command line, unless torchrun or
    SLURM has done so. Raises ConfigError where that is not possible.
    """
    here = processes_here(trainer)
    _check_started(here, trainer.num_nodes)
    if here * trainer.num_nodes == 1:
        return None, Alone()
    accelerator = accelerator_there(trainer.accelerator)
    if accelerator == "cuda" and here > torch.cuda.device_count():
        raise ConfigError(
            f"trainer.devices: got {here}, but torch finds {torch.cuda.device_count()} CUDA devices here"
        )
    before = {name: os.environ.get(name) for name in _SET}
    end_with_first()
    with _command_line_of_this_job(), _quiet("lightning_fabric"), talking():
        fabric, others = _launched(trainer, accelerator, here)

    def close() -> None:
        _restore(before)
        others.close() if others else part_from_first()

    return fabric, Several(fabric.local_rank, here, close)


def _launched(trainer: TrainerSettings, accelerator: str, here: int) -> tuple[Fabric, Others | None]:
    # also in a job of SLURM that is one process
    environment = None if started_from_outside() else LightningEnvironment()
    strategy = DDPStrategy(
        process_group_backend=_BACKENDS[accelerator],
        timeout=timedelta(minutes=trainer.timeout),
        cluster_environment=environment,
    )
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=here,
            num_nodes=trainer.num_nodes,
            strategy=strategy,
            plugins=precision_plugin(trainer.precision, accelerator),
        )
    except (ValueError, RuntimeError) as error:  # what does not fit the environment
        raise _unfit(error) from error
    others = None
    if environment and not environment.creates_processes_externally:
        others = start_others(environment, here, trainer.num_nodes)
    try:
        with _ended_by_signals():
            fabric.launch()
    except ValueError as error:
        raise _unfit(error) from error
    finally:
        if others and not dist.is_initialized():
            others.close()
    return fabric, others


def _unfit(error: Exception) -> ConfigError:
    return ConfigError(f"trainer.devices: {' '.join(str(error).split())}")


def started_from_outside() -> dict[str, int]:
    """Processes here and in all that torchrun or SLURM has started, this one among them; empty if neither has."""
    return _started_by_torchrun() or _started_by_slurm()  # torchrun may be a task of SLURM


def _started_by_torchrun() -> dict[str, int]:
    """Processes here and in all; empty if it was not torchrun that started this one."""
    if not torch.distributed.is_torchelastic_launched():
        return {}
    return {"here": int(os.environ["LOCAL_WORLD_SIZE"]), "all": int(os.environ["WORLD_SIZE"])}


def _started_by_slurm() -> dict[str, int]:
    """Processes here and in all; empty unless srun has started several."""
    tasks = count("SLURM_STEP_NUM_TASKS", 1)
    if tasks == 1:
        return {}
    nodes = count("SLURM_STEP_NUM_NODES", count("SLURM_NNODES", 1)) or 1
    return {"here": tasks // nodes, "all": tasks}


def _check_started(here: int, num_nodes: int) -> None:
    started = started_from_outside()
    if started and started["all"] != here * num_nodes:
        raise ConfigError(
            f"trainer.devices: got {here} on {num_nodes} machines (trainer.num_nodes), but {started['all']} "
            f"processes have been started; set trainer.devices={started['here']} "
            f"trainer.num_nodes={started['all'] // started['here']}"
        )


@contextmanager
def _command_line_of_this_job() -> Iterator[None]:
    """Of a sweep, whose command line would start the whole of it in each process."""
    before = sys.argv
    if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        own = list(HydraConfig.get().overrides.task)
        kept = [word for word in before if word not in ("-m", "--multirun") and not _sweeps(word)]
        sys.argv = kept + [override for override in own if override not in kept]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """A logger that says what is wrong and no more; later it may say which process has ended."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """As by default: where processes wait until all are there, no handler is run. The others then end too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    mine = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)
        yield
    finally:
        for number, handler in mine.items():
            signal.signal(number, handler)


def _sweeps(word: str) -> bool:
    if "=" not in word or word.startswith("-"):
        return False
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException:  # a text that was read although it has no quotes
        return False
    return override.is_sweep_override() or override.is_hydra_override()


def _restore(before: Mapping[str, str | None]) -> None:
    """The environment as it was, so that the next job of a sweep can start its own processes."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
