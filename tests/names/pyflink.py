"""What PyFlink has by which name, whether headrace has it, and if not, what its table says."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.common.public_module import missing_name
from headrace.common.pyflink_names import MEMBERS, MODULES, PLAIN, Missing

LINES = (Path(__file__).parent / "pyflink_names.txt").read_text().splitlines()
NAMES = [line.removeprefix("pyflink.") for line in LINES[1:] if line != "pyflink"]
"""By path below ``pyflink``, which is the one below ``headrace``."""


def resolve(name: str) -> Any:
    """What headrace has by this name.

    Raises:
        AttributeError: when there is no such thing.
    """
    module, path = _split(name)
    if module is None:
        raise AttributeError(name)
    found: Any = module
    for part in path:
        found = getattr(found, part)
    return found


def is_here(name: str) -> bool:
    """Whether headrace has something by this name."""
    try:
        resolve(name)
    except AttributeError:
        return False
    return True


def row(name: str) -> Missing | None:
    """What the table says of a name, or of what it belongs to: module, class."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        if (missing := MODULES.get(".".join(parts[:end]))) is not None:
            return missing
    module, path = _split(name)
    assert module is not None, f"the table has no module {name}"
    if not path or not is_here(".".join([*_below(module), path[0]])):
        return missing_name(".".join(_below(module)), path[0]) if path else None
    return _row_of_member(getattr(module, path[0]), path)


def _row_of_member(owner: Any, path: list[str]) -> Missing | None:
    owners = inspect.getmro(owner) if inspect.isclass(owner) else ()
    members = [".".join(path[1:end]) for end in range(2, len(path) + 1)]
    pairs = [(each.__name__, member) for each in owners for member in members]
    rows = (MEMBERS.get(name, {}).get(member) or PLAIN.get(f"{name}.{member}") for name, member in pairs)
    return next((found for found in rows if found is not None), None)


def _below(module: ModuleType) -> list[str]:
    return module.__name__.split(".")[1:]


@cache
def _module(path: str) -> ModuleType | None:
    try:
        return import_module(f"headrace.{path}")
    except ModuleNotFoundError:
        return None


def _split(name: str) -> tuple[ModuleType | None, list[str]]:
    """The module of a name, as far as it is here, and what is asked of it."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        if name_is_module(".".join(parts[:end])):
            return _module(".".join(parts[:end])), parts[end:]
    raise AssertionError(f"{name} is in no module of PyFlink")


@cache
def _parents() -> frozenset[str]:
    """All that names of PyFlink are in: modules and classes."""
    return frozenset(name[:end] for name in NAMES for end, char in enumerate(name) if char == ".")


def name_is_module(name: str) -> bool:
    """Whether this is a module of PyFlink: something that has names, and is no class and no function."""
    return name.rsplit(".", maxsplit=1)[-1].islower() and name in _parents()
