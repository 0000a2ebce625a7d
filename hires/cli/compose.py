"""The configuration of a request, composed and checked outside of hydra.main."""

from typing import Any

from omegaconf import DictConfig, open_dict

from hires.cli.check import check
from hires.cli.errors import CONFIG_ERRORS, check_overrides, explain
from hires.cli.repeat import loosened, repeated
from hires.errors import ConfigError, HiresError
from hires.request import Request


def composed(request: Request) -> tuple[DictConfig, Any]:
    """The checked configuration of a request, and hydra's own node. Raises ConfigError."""
    try:
        check_overrides(request)
        request = loosened(request)
        cfg = request.compose(request.overrides)
    except HiresError:
        raise
    except CONFIG_ERRORS as error:
        raise ConfigError(explain(error, request)) from error
    with open_dict(cfg):
        node = cfg.pop("hydra")
    cfg = repeated(cfg, node, request)
    check(cfg, request, node)
    return cfg, node
