"""Misuse of broadcast state that the source of a function shows: told when the program is built, with its own line.

A state that was not declared is told where each call asks for it, a change where it may only be read wherever it is
written. What cannot be read here, an attribute that ``open`` sets, say, is left to the errors of the running job.
"""

from __future__ import annotations

import ast
import dis
import inspect
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidProgramError
from headrace.datastream.streams.method_source import MethodSource, source_of, within
from headrace.operators.broadcast.broadcast_state import READ_ONLY, check_declared
from headrace.state.descriptors import StateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.state.descriptors import MapStateDescriptor

_READING: Final = ("process_element", "on_timer")
"""The methods that must not change broadcast state."""
_CHANGING: Final = "process_broadcast_element"

_GETTER: Final = "get_broadcast_state"
_CHANGES: Final = frozenset({"put", "put_all", "remove", "clear"})
_UNKNOWN: Final = object()


def check_broadcast_use(function: Any, descriptors: Sequence[MapStateDescriptor]) -> None:
    """Refuse a function that asks for broadcast state which was not declared, or changes it where it only reads.

    Args:
        function: the function object.
        descriptors: those that were given to ``broadcast(...)``.

    Raises:
        InvalidProgramError: with the line of the function.
    """
    codes = [getattr(getattr(function, name, None), "__code__", None) for name in _READING]
    if getattr(getattr(function, _CHANGING), "__code__", None) in codes:
        return  # one method for both sides: it may tell them apart
    for method in (source_of(function, name, _GETTER) for name in (*_READING, _CHANGING)):
        if method is not None:
            _check_declared(method, function, descriptors)
            if method.name != _CHANGING:
                _check_reads_only(method)


def _check_declared(method: MethodSource, function: Any, descriptors: Sequence[MapStateDescriptor]) -> None:
    for node in method.evaluated():
        if _is_getter(node, method):
            asked = _value(node.args[0], method, function)
            if isinstance(asked, StateDescriptor | str):
                try:
                    check_declared(descriptors, asked)
                except InvalidProgramError as error:
                    raise method.refused(node, str(error)) from None


def _check_reads_only(method: MethodSource) -> None:
    states = method.names_of(_GETTER)
    for node in within(method.body):
        changed = _changed(node)
        if changed is None:
            continue
        is_known = isinstance(changed, ast.Name) and changed.id in states
        if is_known or _is_getter(changed, method):
            raise method.refused(node, READ_ONLY)


def _is_getter(node: Any, method: MethodSource) -> bool:
    return method.is_asked(node, _GETTER) and len(node.args) == 1 and not node.keywords


def _changed(node: ast.AST) -> ast.expr | None:
    """What an expression changes as a map, if it does: by a method, or as ``state[key] = value``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in _CHANGES else None
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    return None


def _value(node: ast.expr, method: MethodSource, function: Any) -> Any:
    """What an expression stands for whenever the method is called, where that is certain."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        code, called = method.code, method.function
        if node.id in code.co_varnames or node.id in code.co_cellvars:
            return _UNKNOWN
        if node.id in code.co_freevars:
            cell = called.__closure__[code.co_freevars.index(node.id)]
            return _contents(cell)
        return called.__globals__.get(node.id, _UNKNOWN)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == method.me:
        is_set_later = any(_stores(code, node.attr) for code in _codes_but_init(type(function)))
        return _UNKNOWN if is_set_later else inspect.getattr_static(function, node.attr, _UNKNOWN)
    return _UNKNOWN


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is assigned later
        return _UNKNOWN


def _codes_but_init(kind: type) -> Iterator[Any]:
    """The code of all methods of a class that may run when the job does."""
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if name != "__init__" and (code := getattr(member, "__code__", None)) is not None:
                yield code


def _stores(code: Any, attribute: str) -> bool:
    return any(one.opname == "STORE_ATTR" and one.argval == attribute for one in dis.get_instructions(code))
