"""Timers where there is no key for them: told when the program is built, with the line, where the source shows it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused
from headrace.datastream.functions import KeyedCoProcessFunction, KeyedProcessFunction
from headrace.datastream.streams.method_source import MethodSource, source_of
from headrace.operators.functions import has_own

if TYPE_CHECKING:
    from collections.abc import Iterable

_SERVICE: Final = "timer_service"
_TIMERS: Final = frozenset(
    f"{what}_{domain}_timer" for what in ("register", "delete") for domain in ("event_time", "processing_time")
)


def check_has_no_timers(function: Any, methods: Iterable[str], keys: str) -> None:
    """Refuse a function for streams without keys that has timers, or is for keys.

    Args:
        function: the function object.
        methods: those that are called for records.
        keys: what to do for keys; begins in lower case.

    Raises:
        InvalidProgramError: when it is for keyed streams, has ``on_timer``, or one of the methods sets or deletes a
            timer at each call.
    """
    if isinstance(function, KeyedProcessFunction | KeyedCoProcessFunction):
        raise refused(f"{type(function).__name__} wants keys: {keys}")
    if has_own(function, "on_timer"):
        raise refused(f"{type(function).__name__} has timers, which belong to keys: {keys}")
    check_sets_no_timers(function, methods, f"timers belong to keys: {keys}")


def check_sets_no_timers(function: Any, methods: Iterable[str], text: str) -> None:
    """Refuse methods that set or delete a timer at each call.

    Args:
        function: the function object.
        methods: the methods whose context has no timers.
        text: what is wrong about them, and what to do.

    Raises:
        InvalidProgramError: with the line of the method.
    """
    for method in (source_of(function, name, _SERVICE) for name in methods):
        if method is not None:
            services = method.names_of(_SERVICE)
            for node in method.evaluated():
                if _sets_timer(node, method, services):
                    raise method.refused(node, text)


def _sets_timer(node: ast.AST, method: MethodSource, services: set[str]) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _TIMERS:
        return False
    service = node.func.value
    return method.is_asked(service, _SERVICE) or (isinstance(service, ast.Name) and service.id in services)
