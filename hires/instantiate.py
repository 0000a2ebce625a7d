"""Turns config nodes with `_target_` into objects, after checking that the target may be used.

A run's config is data from strangers: nothing is imported or called before `allowed` has agreed to it.
"""

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hires.errors import ConfigError
from hires.settings import SettingError

TARGET, ARGS, PARTIAL = "_target_", "_args_", "_partial_"
SPECIAL = (TARGET, ARGS, PARTIAL, "_convert_")

_TORCH = ("torch.optim.Optimizer", "torch.optim.lr_scheduler.LRScheduler", "torch.nn.modules.loss._Loss")
_FABRIC = ("lightning_fabric.loggers.Logger",)
LIBRARIES = {
    "albumentations": ("albumentations.BasicTransform", "albumentations.BaseCompose"),
    "torch": _TORCH,
    "timm": _TORCH,
    "lightning_fabric": _FABRIC,
    "pytorch_lightning": _FABRIC,
    "lightning": ("lightning.fabric.loggers.Logger",),
}
"""Packages that a target may come from, and the classes of which it must be a subclass."""

ALLOWING = "allow_targets=[package.] on the command line adds a package that you trust"
RULE = (
    "a target must be a class under hires., an albumentations transform, a torch optimizer, scheduler or "
    f"loss, or a Fabric logger; {ALLOWING}"
)


def instantiate(node: Any, path: str, allow: Sequence[str] = ()) -> Any:
    """The object that a node describes; mappings and lists without `_target_` become dicts and lists.

    `path` is the node's key in the config, for messages; `allow` are further package prefixes.
    Raises ConfigError for a target that is not allowed, a wrong, missing or unknown parameter.
    """
    plain = plain_values(node, path)
    missing = next(missing_keys(plain, path), None)
    if missing:
        raise ConfigError(f"{missing}: must be given")
    _check(plain, path, allow)
    return _build(plain, path, allow)


def check(node: Any, path: str = "", allow: Sequence[str] = ()) -> None:
    """Checks every target and parameter name below a node without making anything. Raises ConfigError."""
    _check(plain_values(node, path), path, allow)


def allowed_on_command_line() -> tuple[str, ...]:
    """The prefixes of `allow_targets=[...]` on this process's command line; a file cannot give any."""
    parser = OverridesParser.create()
    values = [
        parser.parse_override(argument).value()
        for argument in sys.argv[1:]
        if argument.lstrip("+").startswith("allow_targets=")
    ]
    prefixes = values[-1] if values else []
    return tuple(str(p) for p in (prefixes if isinstance(prefixes, list) else [prefixes]))


def allowed_function(name: str, key: str, allow: Sequence[str]) -> Any:
    """The function `package.module.function` of a package that the prefixes allow; imports it.

    Raises ConfigError, which names the key, for one that they do not allow or that is not there.
    """
    if not _under(name, [prefix.rstrip(".") for prefix in allow if prefix.rstrip(".")]):
        raise ConfigError(f"{key}: {name} is not allowed: {ALLOWING}")
    try:
        return resolve(name, key, allow)
    except ConfigError as error:
        raise ConfigError(str(error).replace(f"{_join(key, TARGET)}: ", f"{key}: ")) from error


def missing_keys(plain: Any, path: str = "") -> Iterator[str]:
    """Dotted keys of the values that are still `???`."""
    if plain == "???":
        yield path
    for child, child_path in _children(plain, path):
        yield from missing_keys(child, child_path)


def plain_values(node: Any, path: str) -> Any:
    """A node as dicts and lists with its interpolations resolved. Raises ConfigError, which names the key."""
    if not OmegaConf.is_config(node):
        return node
    try:
        return OmegaConf.to_container(node, resolve=True)
    except OmegaConfBaseException as error:
        key = error.full_key or path
        key = key if key.startswith(path) else _join(path, key)
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}") from error


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _children(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, Mapping):
        yield from ((child, _join(path, key)) for key, child in value.items())
    elif isinstance(value, list):
        yield from ((child, _join(path, index)) for index, child in enumerate(value))


def _check(value: Any, path: str, allow: Sequence[str]) -> None:
    if isinstance(value, Mapping) and TARGET in value:
        _check_names(resolve(value[TARGET], path, allow), value, path)
    for child, child_path in _children(value, path):
        _check(child, child_path, allow)


def _check_names(target: type, node: Mapping[str, Any], path: str) -> None:
    signature = _signature(target)
    if signature is None or any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        return
    allowed = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    for key in node:
        if key not in allowed and key not in SPECIAL:
            raise ConfigError(unknown_key(path, str(key), allowed))


def _signature(target: type) -> inspect.Signature | None:
    try:
        return inspect.signature(target)
    except ValueError:  # some classes written in C have none
        return None


def unknown_key(path: str, key: str, allowed: Sequence[str]) -> str:
    """The message for a key that is not among those allowed in the mapping at `path`."""
    near = get_close_matches(key, allowed, n=1)
    return no_such_key(_join(path, key), _join(path, near[0]) if near else None, path, allowed)


def no_such_key(key: str, nearest: str | None, where: str, allowed: Sequence[str]) -> str:
    """The message for an unknown key: what is like it, and what the mapping at `where` takes."""
    hint = f"; did you mean {nearest}?" if nearest else ";"
    names = ", ".join(sorted(allowed)) or "nothing"
    return f"{key}: no such key{hint} allowed{f' in {where}' if where else ''}: {names}"


def resolve(name: Any, path: str, allow: Sequence[str] = ()) -> Any:
    """The class that a `_target_` names. Raises ConfigError if it does not exist or is not allowed."""
    refused = ConfigError(f"{_join(path, TARGET)}: {name!r} is not allowed: {RULE}")
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        raise refused
    parts = name.split(".")
    packages = tuple(prefix.rstrip(".") for prefix in allow if prefix.rstrip("."))
    trusted = ("hires", *packages)
    if len(parts) < 2 or not (_under(name, trusted) or parts[0] in LIBRARIES):
        raise refused
    if any(part.startswith("_") for part in parts) and not _under(name, packages):
        raise refused
    found = _locate(parts, path, trusted)
    # Modules show what they import (hires.data.images.os): where an object was defined is what counts.
    defined = str(getattr(found, "__module__", ""))
    if _under(name, packages) and callable(found) and _under(defined, packages):
        return found
    if inspect.isclass(found) and (_under(defined, ("hires",)) or _derived(found, parts[0])):
        return found
    raise refused


def _under(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def _derived(found: type, package: str) -> bool:
    names = (base.rpartition(".") for base in LIBRARIES.get(package, ()))
    bases = tuple(getattr(import_module(module), base) for module, _, base in names)
    return issubclass(found, bases)


def _locate(parts: list[str], path: str, trusted: Sequence[str]) -> Any:
    """Follows a dotted name without leaving its package."""
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    found: Any = _import(parts[0], path)
    for depth, part in enumerate(parts[1:], 1):
        if isinstance(found, ModuleType) and not _under(found.__name__, (parts[0], *trusted)):
            return None
        if not hasattr(found, part) and isinstance(found, ModuleType) and hasattr(found, "__path__"):
            found = _import(".".join(parts[: depth + 1]), path)
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            raise ConfigError(_not_found(".".join(parts), path, ".".join(parts[:depth]), part, dir(found)))
    return found


def _import(name: str, path: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise ConfigError(f"{_join(path, TARGET)}: {name} needs {error.name}, not installed") from error
    parent, _, last = name.rpartition(".")
    raise ConfigError(_not_found(name, path, parent, last, dir(import_module(parent)) if parent else []))


def _not_found(name: str, path: str, parent: str, last: str, names: Sequence[str]) -> str:
    near = get_close_matches(last, names, n=1)
    hint = f"; did you mean {_join(parent, near[0])}?" if near else ""
    return f"{_join(path, TARGET)}: {name} does not exist{hint}"


def _build(value: Any, path: str, allow: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_build(child, child_path, allow) for child, child_path in _children(value, path)]
    if not isinstance(value, Mapping):
        return value
    if TARGET not in value:
        return {key: _build(child, _join(path, key), allow) for key, child in value.items()}
    target = resolve(value[TARGET], path, allow)
    args = _build(value.get(ARGS) or [], _join(path, ARGS), allow)
    kwargs = {k: _build(v, _join(path, k), allow) for k, v in value.items() if k not in SPECIAL}
    if value.get(PARTIAL):
        return partial(target, *args, **kwargs)
    return _call(target, args, kwargs, path)


def _call(target: type, args: list[Any], kwargs: dict[str, Any], path: str) -> Any:
    _check_complete(target, args, kwargs, path)
    try:
        return target(*args, **kwargs)
    except SettingError as error:
        raise ConfigError(f"{_join(path, error)}") from error
    except ConfigError as error:
        if str(error).startswith(path):
            raise
        raise ConfigError(f"{path}: {error}") from error
    except (TypeError, ValueError) as error:
        if _under(target.__module__, ("hires",)):  # ours: a bug, to be seen with its traceback
            raise
        raise ConfigError(_library_message(error, path, target.__name__)) from error


def _check_complete(target: type, args: list[Any], kwargs: dict[str, Any], path: str) -> None:
    signature = _signature(target)
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        required = [p for p in signature.parameters.values() if p.default is p.empty]
        named = [p.name for p in required if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        absent = [name for name in named[len(args) :] if name not in kwargs]
        problem = f"{_join(path, absent[0])}: must be given" if absent else f"{path}: {error}"
        raise ConfigError(problem) from error


def _library_message(error: Exception, path: str, target: str) -> str:
    """What a library says; of a pydantic error its first item, since its first line names nothing."""
    cause = error if hasattr(error, "errors") else error.__cause__
    if cause is not None and hasattr(cause, "errors"):
        first = cause.errors()[0]
        key = _join(path, first["loc"][0] if first["loc"] else target)
        return f"{key}: got {first['input']!r}: {first['msg']}"
    return f"{path}: {target}: {(str(error).splitlines() or [type(error).__name__])[0]}"
