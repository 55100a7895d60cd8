"""Modules under PyFlink's names: they show what is public, and say what to do about what is not there."""

from __future__ import annotations

import dis
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from pkgutil import iter_modules
from types import FrameType, ModuleType
from typing import Any, Final

from headrace.common.errors import MissingImportError, MissingModuleError, MissingNameError, UnknownNameError
from headrace.common.other_names import alike
from headrace.common.pyflink_names import MODULES, NAMES, Missing
from headrace.common.tracebacks import hides_engine

_IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]
_NOWHERE: Final[Mapping[str, str]] = {}
_PACKAGES: Final = (
    "headrace",
    "headrace.common",
    "headrace.datastream",
    "headrace.datastream.connectors",
    "headrace.datastream.formats",
    "headrace.metrics",
)
"""Packages whose modules are public, among others."""

_public: Final[set[str]] = set()
_others: Final[dict[str, Mapping[str, str]]] = {}


def public_module(name: str, elsewhere: Mapping[str, str] = _NOWHERE, others: Mapping[str, str] = _NOWHERE) -> None:
    """Makes ``dir()`` of a module show what is public in it, and the module answer for what it does not have.

    What it shows is its ``__all__``, and the public modules below it that are loaded. Type checkers do not see that it
    answers: to them a name that is not there stays an error.

    Args:
        name: the module's ``__name__``.
        elsewhere: names that it hands on from modules of higher packages, which are imported when one is asked for.
        others: names of other libraries and what to write instead, which begins in lower case.
    """
    module = sys.modules[name]
    _public.add(name)
    _others[name] = others

    @hides_engine
    def look_up(asked: str) -> Any:
        if asked in elsewhere:
            return getattr(import_module(elsewhere[asked]), asked)
        raise answer(module, asked, sys._getframe(2))  # behind hides_engine

    module.__getattr__ = look_up  # type: ignore[method-assign]
    module.__dir__ = lambda: _names(module)  # type: ignore[method-assign]


def answer(module: ModuleType, name: str, asking: FrameType) -> Exception:
    """What to raise for a name that a module does not have.

    Python replaces an ``AttributeError`` by a text of its own where a program says ``from module import name``, so it
    is an ``ImportError`` there, if there is more to say; everywhere else it has to be an ``AttributeError``, or
    ``hasattr`` would fail.

    Args:
        module: the module.
        name: what was asked for.
        asking: the frame that asked.
    """
    if name.startswith("_"):  # Python's own protocols ask for these
        return AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
    importing = _is_importing(asking)
    missing = missing_name(module.__name__.partition(".")[2], name)
    if missing is not None:
        text = f"{module.__name__}.{name} is not there{missing}"
        return MissingImportError(text, module.__name__, module.__file__) if importing else MissingNameError(text)
    other = _others.get(module.__name__, _NOWHERE).get(name)
    hint = f": {other}" if other else (_import_of(name) if importing else "") or alike(name, dir(module))
    if importing and hint:
        return MissingImportError(f"{module.__name__} has no {name!r}{hint}", module.__name__, module.__file__)
    return UnknownNameError(f"module {module.__name__!r} has no attribute {name!r}{hint}")


def check_module(name: str) -> None:
    """Refuse a module that is not there, where more can be said than that.

    Raises:
        MissingModuleError: for one that only PyFlink has, or that has another path.
    """
    missing = MODULES.get(name.partition(".")[2])
    if missing is not None:
        raise MissingModuleError(f"{name} is not there{missing}", name)
    elsewhere = _module_elsewhere(name)
    if elsewhere is not None:
        raise MissingModuleError(f"{name} is not there: it is {elsewhere}", name)


def _module_elsewhere(name: str) -> str | None:
    """The public module that was meant: ``headrace.expressions``, say, by ``headrace.datastream.expressions``."""
    last = name.rpartition(".")[2]
    for package in _PACKAGES:
        found = f"{package}.{last}"
        if found != name and PathFinder.find_spec(found, import_module(package).__path__) is not None:
            import_module(found)
            if found in _public:
                return found
    return None


def _import_of(name: str) -> str:
    """The end of a message: from where to import a name; empty when no public module has it."""
    for package in _PACKAGES[1:]:  # they import what else there is
        for module in iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    holders = [module for module in sorted(_public, key=_depth) if name in sys.modules[module].__all__]
    return f": from {holders[0]} import {name}" if holders else ""


def _depth(module: str) -> int:
    return module.count(".")


def missing_name(module: str, name: str) -> Missing | None:
    """The row of a name that only PyFlink has, in this module or another one of its API.

    Args:
        module: its path below ``headrace``.
        name: what is asked of it.
    """
    path = f"{module}.{name}" if module else name
    if path in MODULES:
        return MODULES[path]
    if name in NAMES.get(module, {}):
        return NAMES[module][name]
    return next((names[name] for names in NAMES.values() if name in names), None)


def _is_importing(frame: FrameType) -> bool:
    """Whether a frame is in the middle of ``from module import name``."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


def _names(module: ModuleType) -> list[str]:
    below = [name for name in vars(module) if f"{module.__name__}.{name}" in _public]
    return sorted({*module.__all__, *below})
