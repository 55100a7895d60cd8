"""Modules under PyFlink's names: they show what is public, and say what to do about what only PyFlink has."""

from __future__ import annotations

import dis
import sys
from collections.abc import Mapping
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, Final

from headrace.common.errors import MissingImportError, MissingNameError
from headrace.common.pyflink_names import MODULES, NAMES, Missing
from headrace.common.tracebacks import hides_engine

_IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]
_NOWHERE: Final[Mapping[str, str]] = {}
_public: Final[set[str]] = set()


def public_module(name: str, elsewhere: Mapping[str, str] = _NOWHERE) -> None:
    """Makes ``dir()`` of a module show what is public in it, and the module answer for what it does not have.

    What it shows is its ``__all__``, and the public modules below it that are loaded. Type checkers do not see that it
    answers: to them a name that is not there stays an error.

    Args:
        name: the module's ``__name__``.
        elsewhere: names that it hands on from modules of higher packages, which are imported when one is asked for.
    """
    module = sys.modules[name]
    _public.add(name)

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
    is an ``ImportError`` there; everywhere else it has to be an ``AttributeError``, or ``hasattr`` would fail.

    Args:
        module: the module.
        name: what was asked for.
        asking: the frame that asked.
    """
    missing = missing_name(module.__name__.partition(".")[2], name)
    if missing is None:
        return AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
    text = f"{module.__name__}.{name} is not there{missing}"
    if not _is_importing(asking):
        return MissingNameError(text)
    return MissingImportError(text, module.__name__, module.__file__)


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
