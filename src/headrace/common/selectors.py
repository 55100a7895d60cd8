"""Recognises functions that do nothing but pick fields of their argument, without calling them."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from types import CodeType
from typing import Any, Final

Field = str | int


@dataclass(frozen=True, slots=True)
class _Argument:
    """The record that the function is given."""


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Any


@dataclass(frozen=True, slots=True)
class _Picked:
    """A field of the record."""

    field: Field


@dataclass(frozen=True, slots=True)
class _Tuple:
    items: tuple[Any, ...]


class _UnknownCodeError(Exception):
    """The function does something else than picking fields, or in a way that is not known here."""


class _Machine:
    """Follows the instructions of a function with symbols in the place of values."""

    def __init__(self, argument: str) -> None:
        self._argument = argument
        self._stack: list[Any] = []
        self.result: Any = None

    def run(self, code: CodeType) -> Any:
        for instruction in dis.get_instructions(code):
            name = instruction.opname
            if name in _NOTHING:
                continue
            if name == "RETURN_VALUE":
                return self._pop()
            _STEPS.get(name, _Machine.unknown)(self, instruction)
        raise _UnknownCodeError

    def unknown(self, instruction: dis.Instruction) -> None:
        raise _UnknownCodeError(instruction.opname)

    def load_argument(self, instruction: dis.Instruction) -> None:
        if instruction.argval != self._argument:
            raise _UnknownCodeError
        self._stack.append(_Argument())

    def load_two(self, instruction: dis.Instruction) -> None:
        if instruction.argval != (self._argument, self._argument):
            raise _UnknownCodeError
        self._stack += [_Argument(), _Argument()]

    def load_constant(self, instruction: dis.Instruction) -> None:
        self._stack.append(_Constant(instruction.argval))

    def pick_item(self, instruction: dis.Instruction) -> None:
        del instruction
        key = self._pop()
        self._pick(key.value if isinstance(key, _Constant) else None)

    def binary(self, instruction: dis.Instruction) -> None:
        # From Python 3.14 on, taking an item is one of the binary operators.
        if instruction.argrepr != "[]":
            raise _UnknownCodeError
        self.pick_item(instruction)

    def pick_attribute(self, instruction: dis.Instruction) -> None:
        # argrepr tells apart `x.a` from the load of a method that is about to be called, "a + NULL|self".
        if instruction.argrepr != instruction.argval:
            raise _UnknownCodeError
        self._pick(instruction.argval)

    def build_tuple(self, instruction: dis.Instruction) -> None:
        count = instruction.arg or 0
        if not 0 < count <= len(self._stack):
            raise _UnknownCodeError
        self._stack[-count:] = [_Tuple(tuple(self._stack[-count:]))]

    def _pick(self, field: Any) -> None:
        if not isinstance(self._pop(), _Argument) or type(field) not in (str, int):
            raise _UnknownCodeError
        self._stack.append(_Picked(field))

    def _pop(self) -> Any:
        if not self._stack:
            raise _UnknownCodeError
        return self._stack.pop()


_NOTHING: Final = frozenset({"RESUME", "NOP", "CACHE", "NOT_TAKEN", "EXTENDED_ARG"})

_STEPS: Final[dict[str, Callable[[_Machine, dis.Instruction], None]]] = {
    "LOAD_FAST": _Machine.load_argument,
    "LOAD_FAST_BORROW": _Machine.load_argument,
    "LOAD_FAST_CHECK": _Machine.load_argument,
    "LOAD_FAST_LOAD_FAST": _Machine.load_two,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _Machine.load_two,
    "LOAD_CONST": _Machine.load_constant,
    "LOAD_CONST_IMMORTAL": _Machine.load_constant,
    "LOAD_SMALL_INT": _Machine.load_constant,
    "BINARY_SUBSCR": _Machine.pick_item,
    "BINARY_OP": _Machine.binary,
    "LOAD_ATTR": _Machine.pick_attribute,
    "BUILD_TUPLE": _Machine.build_tuple,
}

_MORE_ARGUMENTS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_NO_PLAIN_RESULT: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_UNSUITABLE: Final = _MORE_ARGUMENTS | _NO_PLAIN_RESULT


def field_of_selector(selector: Any) -> tuple[Field, ...] | None:
    """The fields that a key selector picks: one for ``lambda x: x[0]``, several for ``lambda x: (x.a, x.b)``.

    Lambdas, functions, methods, ``operator.itemgetter`` and ``attrgetter`` are understood when they do just this with
    their only argument. The selector is not called. A tuple of one field, ``lambda x: (x[0],)``, is not reported,
    since it could not be told from the field itself.

    Returns:
        The names or positions, or ``None`` when the selector does anything else or that is not certain.
    """
    if isinstance(selector, itemgetter | attrgetter):
        return _fields_of_getter(selector)
    if inspect.isfunction(selector):
        return _fields_of_code(selector.__code__, 0)
    if inspect.ismethod(selector) and inspect.isfunction(selector.__func__):
        return _fields_of_code(selector.__func__.__code__, 1)
    return None


def _fields_of_getter(getter: Any) -> tuple[Field, ...] | None:
    fields: tuple[Any, ...] = getter.__reduce__()[1]
    dotted = isinstance(getter, attrgetter) and any("." in field for field in fields)
    return None if dotted or any(type(field) not in (str, int) for field in fields) else fields


def _fields_of_code(code: CodeType, position: int) -> tuple[Field, ...] | None:
    if (
        code.co_argcount != position + 1
        or code.co_kwonlyargcount
        or code.co_flags & (_MORE_ARGUMENTS | _NO_PLAIN_RESULT)
    ):
        return None
    try:
        result = _Machine(code.co_varnames[position]).run(code)
    except Exception:  # bytecode differs between versions of Python: anything unexpected means "not certain"
        return None
    if isinstance(result, _Picked):
        return (result.field,)
    if isinstance(result, _Tuple) and len(result.items) > 1 and all(isinstance(item, _Picked) for item in result.items):
        return tuple(item.field for item in result.items)
    return None
