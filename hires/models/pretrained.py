"""Weights of backbones: from timm's hub or from a file, with what is to be said about them."""

import difflib
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm
import torch

from hires.interfaces import ConfigError
from hires.models.mix_transformer import NAMES as MIX_TRANSFORMERS

log = logging.getLogger(__name__)


def with_weights_of_file(name: str, file: str, make: Callable[..., Any]) -> Any:
    """What `make(file=...)` gives. Raises ConfigError when less than half of its weights are in the file.

    timm loads a file leniently: of two made from the same random state, what stayed equal was not loaded.
    """
    if not Path(file).is_file():
        raise ConfigError(f"backbone.weights: {file} is not a file; give one with timm's names, or null")
    with torch.random.fork_rng(devices=[]):
        random = make(file=None).state_dict()
    net = make(file=file)
    kernels = [key for key, value in net.state_dict().items() if value.ndim > 1]
    loaded = [key for key in kernels if not torch.equal(net.state_dict()[key], random[key])]
    log.info("%s: %d of %d weight tensors loaded", file, len(loaded), len(kernels))
    if len(loaded) < len(kernels) / 2:
        raise ConfigError(
            f"backbone.weights: {file} has only {len(loaded)} of {len(kernels)} weight tensors of "
            f"{name}; it must hold timm's names. For a checkpoint of hires use init_from"
        )
    return net


def why_not_built(name: str, pretrained: bool, file: str | None, error: Exception) -> ConfigError:
    """The error for a backbone that could not be made, with what to set."""
    reason = (str(error) or type(error).__name__).splitlines()[0]
    if file:
        return ConfigError(f"backbone.weights: {file} does not load into {name}: {reason}")
    ours = isinstance(error, (TypeError, ValueError, AssertionError)) and not isinstance(error, OSError)
    if ours or not pretrained:  # what went wrong before any download
        return ConfigError(f"backbone.name: {name} cannot be built: {reason}")
    return ConfigError(
        f"backbone.pretrained: the weights of {name} could not be downloaded ({reason}); "
        "set backbone.pretrained=false, or backbone.weights=FILE, or init_from=RUN"
    )


def unknown_name(name: str) -> ConfigError:
    """The error for a backbone that neither library has, with names that are like it."""
    near = difflib.get_close_matches(name, [*timm.list_models(), *MIX_TRANSFORMERS], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ConfigError(f"backbone.name: timm has no model {name!r}{hint}")


def announce_download(name: str) -> None:
    """Logs that weights are fetched; the hub's own lines about each of its retries would bury what counts."""
    log.info("Pretrained weights of %s: from the hub's cache, or downloaded now", name)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def say_licence(name: str, config: dict[str, Any]) -> None:
    """Logs the licence of pretrained weights; warns where it forbids commercial use."""
    licence = config.get("license") or "not stated"
    log.info("Pretrained weights of %s: licence %s", name, licence)
    if "nc" in re.split(r"[^a-z]+", licence.lower()) or "noncommercial" in licence.lower().replace("-", ""):
        log.warning("The licence of these weights (%s) forbids commercial use", licence)
