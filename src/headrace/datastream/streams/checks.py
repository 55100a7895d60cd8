"""Checks of what a program hands to a stream, made at once so that errors point at the line that is wrong."""

from __future__ import annotations

import inspect
from typing import Any, Final

from headrace.common.arguments import refused, shown, with_article
from headrace.common.call_site import of_function
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError
from headrace.common.signatures import check_parameters, method_of_object
from headrace.datastream.functions import (
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.operators.functions import has_own

_AWAITED_ELSEWHERE: Final = frozenset({"map", "flat_map"})
"""Methods of functions that AsyncDataStream has a likeness of."""

_OF_KEYS: Final = "key_by(...).window(...)"
_OF_ALL: Final = "window_all(...)"
_WINDOWS: Final[dict[type[Function], str]] = {
    WindowFunction: _OF_KEYS,
    ProcessWindowFunction: _OF_KEYS,
    AllWindowFunction: _OF_ALL,
    ProcessAllWindowFunction: _OF_ALL,
}
"""Which windows functions are for. Their methods have the same names, and other parameters."""


def check_function(
    function: Any, base: type[Function], method: str, *, otherwise: str = "", is_opened: bool = True
) -> None:
    """Refuse what cannot be called for a record, or not with what it is called with.

    Args:
        function: what the user gave.
        base: the class that it should be of, unless it is callable.
        method: the method that is called for a record.
        otherwise: what else the caller takes, as it follows in the message.
        is_opened: whether its ``open`` and ``close`` are called.

    Raises:
        InvalidTypeError: when it is neither, or takes other parameters.
    """
    check_instance(function, base)
    if method_of_object(function, method) is None and not callable(function):
        raise refused(
            f"expected {with_article(base)} or a function{otherwise}, got {shown(function)}", InvalidTypeError
        )
    check_parameters(function, base, method, is_opened=is_opened)
    _refuse_coroutine(method_of_object(function, method) or function, method)


def check_object(function: Any, base: type[Function], method: str, *, instead: str = "") -> None:
    """Refuse what does not have the method, or with other parameters: plain callables do not do here.

    Args:
        function: what the user gave.
        base: the class that it should be of.
        method: the method that is called.
        instead: what to write for what was given; begins in lower case.

    Raises:
        InvalidTypeError: when the method is missing, or takes other parameters.
    """
    check_instance(function, base)
    if method_of_object(function, method) is None:
        hint = instead or f"write a class derived from it, with {method}"
        raise refused(f"expected {with_article(base)}, got {shown(function)}: {hint}", InvalidTypeError)
    check_parameters(function, base, method)
    _refuse_coroutine(method_of_object(function, method), method)


def check_methods(function: Any, base: type[Function], *methods: str) -> None:
    """Refuse what lacks one of the methods of a function with several, or has them with other parameters.

    Args:
        function: what the user gave.
        base: the class that it should be of.
        methods: the methods that are called for records.

    Raises:
        InvalidTypeError: when one is missing, or takes other parameters.
    """
    instead = f"write a class derived from it, with {' and '.join(methods)}"
    for method in methods:
        check_object(function, base, method, instead=instead)


def check_is_not_opened(function: Any, base: type[Function], role: str, instead: str) -> None:
    """Refuse a function with an ``open`` that nobody would call.

    Args:
        function: what the user gave.
        base: the class that says that its ``open`` is meant.
        role: what it is given as.
        instead: what to do for it.

    Raises:
        UnsupportedOperationError: when it has one.
    """
    if isinstance(function, base) and has_own(function, "open"):
        raise refused(
            f"{type(function).__name__}.open() would never be called: a {role} runs wherever records are sent, outside "
            f"of any operator; {instead}",
            UnsupportedOperationError,
        )


def check_has_no_state(function: Any, role: str, instead: str) -> None:
    """Refuse a function that keeps state of its subtask where nobody would ask it for that.

    Args:
        function: what the user gave.
        role: what it is given as.
        instead: where state can be kept.

    Raises:
        InvalidProgramError: when it is a ``CheckpointedFunction``, or looks like one.
    """
    if isinstance(function, CheckpointedFunction) or hasattr(type(function), "initialize_state"):
        raise refused(
            f"{type(function).__name__}.initialize_state() would never be called: a {role} belongs to no operator, and "
            f"has no state; {instead}"
        )


def _refuse_coroutine(called: Any, method: str) -> None:
    """Refuse an ``async def``: what it returns when it is called is no result yet, and nobody would wait for one."""
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        instead = "write def instead of async def"
        if method in _AWAITED_ELSEWHERE:
            instead += ", or use AsyncDataStream"
        text = f"{method} is called and not awaited: {instead} ({of_function(called)})"
        raise refused(text, InvalidTypeError)


def check_instance(function: Any, base: type[Function]) -> None:
    """Refuse a class where an instance is meant, and a function for other windows.

    Raises:
        InvalidTypeError: when ``function`` is a class derived from ``base``, or made for windows of keys where those
            of all records are, or the other way round.
    """
    if isinstance(function, type) and issubclass(function, base):
        text = f"expected {with_article(base)}, got the class itself: write {function.__name__}()"
        raise refused(text, InvalidTypeError)
    if base in _WINDOWS and not isinstance(function, base):
        made_for = next((kind for kind in _WINDOWS if isinstance(function, kind)), base)
        if _WINDOWS[made_for] != _WINDOWS[base]:
            text = f"expected {with_article(base)}, got {with_article(made_for)}: that is for {_WINDOWS[made_for]}"
            raise refused(text, InvalidTypeError)


def check_same_environment(first: object, second: object, method: str) -> None:
    """Refuse streams of two environments, which cannot be in one job.

    Raises:
        InvalidProgramError: when they are two.
    """
    if first is not second:
        raise refused(f"{method} takes a stream of the same environment")
