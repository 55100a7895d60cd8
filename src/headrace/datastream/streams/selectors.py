"""Recognises functions that do nothing but pick fields of their argument.

``key_by(lambda r: r.card)`` is what programs for Flink say, and the key's type, its column in the output of windows and
the form in which it is kept in state all follow from its being a field. So such a function is tried once, on a record
that is none, where nothing but picking can come of it.
"""

from __future__ import annotations

import dis
import inspect
from operator import attrgetter, itemgetter
from types import CodeType, FunctionType
from typing import Any, ClassVar, Final

Field = str | int

_MORE_ARGUMENTS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_NO_PLAIN_RESULT: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _Picked:
    """Stands for a field of the record; can do nothing."""

    __slots__ = ("field",)

    # For another record a field may equal something
    __eq__: ClassVar[None] = None  # type: ignore[assignment]
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, field: Field) -> None:
        self.field = field


class _Record:
    """Stands for a record: remembers which fields are picked of it."""

    __slots__ = ("_picks",)

    # Without these, going through it would pick 0, 1, 2 and so on for ever
    __iter__: ClassVar[None] = None
    __contains__: ClassVar[None] = None

    def __init__(self, picks: list[_Picked]) -> None:
        object.__setattr__(self, "_picks", picks)

    def __getattribute__(self, name: str) -> _Picked:
        picks: list[_Picked] = object.__getattribute__(self, "_picks")
        picks.append(_Picked(name))
        return picks[-1]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)

    def __getitem__(self, field: Any) -> _Picked:
        if type(field) not in (str, int):
            raise TypeError(field)
        return _Record.__getattribute__(self, field)


def field_of_selector(selector: Any) -> tuple[Field, ...] | None:
    """The fields that a key selector picks: one for ``lambda x: x[0]``, several for ``lambda x: (x.a, x.b)``.

    Lambdas, functions, methods, ``operator.itemgetter`` and ``attrgetter`` are understood when they do just this with
    their only argument. What is called is a copy of the function that has no branches and sees no names beside its
    argument, so neither does anything happen, nor could it pick anything else for another record. A tuple of one field,
    ``lambda x: (x[0],)``, is not reported, since it could not be told from the field itself.

    Returns:
        The names or positions, or ``None`` when the selector does anything else or that is not certain.
    """
    if isinstance(selector, itemgetter | attrgetter):
        return _fields_of_getter(selector)
    if inspect.isfunction(selector):
        return _fields_of_code(selector.__code__, ())
    if inspect.ismethod(selector) and inspect.isfunction(selector.__func__):
        return _fields_of_code(selector.__func__.__code__, (object(),))
    return None


def _fields_of_getter(getter: Any) -> tuple[Field, ...] | None:
    fields: tuple[Any, ...] = getter.__reduce__()[1]
    dotted = isinstance(getter, attrgetter) and any("." in field for field in fields)
    return None if dotted or any(type(field) not in (str, int) for field in fields) else fields


def _fields_of_code(code: CodeType, before: tuple[object, ...]) -> tuple[Field, ...] | None:
    if not _is_straight(code, len(before) + 1):
        return None
    picks: list[_Picked] = []
    names: dict[str, Any] = {"__builtins__": {}}
    try:
        result = FunctionType(code, names)(*before, _Record(picks))
    except Exception:  # it looked for something that a record that is none, or a function without names, has not
        return None
    found = result if type(result) is tuple and len(result) > 1 else (result,)
    picks_only = len(found) == len(picks) and all(map(lambda one, other: one is other, found, picks))
    return tuple(pick.field for pick in picks) if picks_only and names == {"__builtins__": {}} else None


def _is_straight(code: CodeType, arguments: int) -> bool:
    """Whether the code takes so many arguments, has no other variables or functions, and never goes another way.

    A field that is given a name, if only that of the argument, could be asked for twice, and compared with ``is``.
    """
    has_more = code.co_kwonlyargcount or code.co_flags & (_MORE_ARGUMENTS | _NO_PLAIN_RESULT)
    if has_more or not code.co_argcount == code.co_nlocals == arguments or code.co_freevars or code.co_cellvars:
        return False
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        return False
    if any("STORE_FAST" in instruction.opname for instruction in dis.get_instructions(code)):
        return False
    return not code.co_exceptiontable and not dis.findlabels(code.co_code)  # type: ignore[arg-type]
