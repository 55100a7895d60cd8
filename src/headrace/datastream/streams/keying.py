"""From what a program gives to ``key_by`` to how records are keyed."""

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from types import CodeType, FunctionType
from typing import Any, ClassVar, Final

from headrace.common.arguments import check_returns, method_of_object
from headrace.common.call_site import caller
from headrace.common.errors import InvalidTypeError, refused
from headrace.common.typeinfo import DataclassTypeInfo, DictTypeInfo, TypeInformation, Types
from headrace.datastream.functions import KeySelector
from headrace.datastream.streams.checks import (
    bound,
    check_function,
    check_has_no_state,
    check_is_not_opened,
    check_same_type,
    name_of,
    type_of_field,
)
from headrace.datastream.streams.types import declared_type, infer_from_hint
from headrace.expressions import Column, Expression, bind_tuple, col
from headrace.graph.partitioning import KeySelection
from headrace.state.keys import KeyCodec

Fields = tuple[str | int, ...]

_STATE_BEFORE: Final = "put into the record what the key needs, with a map() that keeps the state"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Takes one field from a record of whatever class; a class, since a closure over it would be pickled by value.

    Attributes:
        field: the name, or the position.
    """

    field: str | int

    def __call__(self, record: Any) -> Any:
        try:
            return record[self.field]
        except TypeError:
            if not isinstance(self.field, str):
                raise
            return getattr(record, self.field)


def key_of(
    record_type: TypeInformation, key_selector: object, more: tuple[object, ...], key_type: object
) -> KeySelection:
    """The keys of records, from all that ``key_by`` may be given.

    Args:
        record_type: the type of the records.
        key_selector: as for :func:`key_selection`, or an expression.
        more: more fields or expressions, or the type of the key.
        key_type: the type of the key as the user declared it; None finds it out.

    Raises:
        InvalidTypeError: as :func:`key_selection`, and when an expression does not fit the records.
        InvalidProgramError: when the arguments do not go together.
    """
    if isinstance(key_selector, Expression) or any(map(_is_column, more)):
        return _computed(record_type, tuple(map(_as_column, (key_selector, *more))), key_type)
    if len(more) > 1 or (more and key_type is not None):
        raise refused("key_by takes one function, or fields and expressions, and behind a function the type of the key")
    return key_selection(record_type, key_selector, more[0] if more else key_type)


def _is_column(given: object) -> bool:
    return isinstance(given, Expression | str | int) and not isinstance(given, bool)


def _as_column(given: Any) -> Expression:
    """One of several columns of a key."""
    if not _is_column(given):
        text = f"key_by takes fields and expressions together with others, not {given!r} (key_type=... is it?)"
        raise refused(text, InvalidTypeError)
    return given if isinstance(given, Expression) else col(given)


def key_selection(record_type: TypeInformation, key_selector: Any, key_type: Any) -> KeySelection:
    """The keys of records of a type.

    Args:
        record_type: the type of the records.
        key_selector: a ``KeySelector``, a function, or the name or position of a field.
        key_type: the type of the key as the user declared it; None finds it out.

    Raises:
        InvalidTypeError: when the selector is none of these, there is no such field, or values of the type cannot be
            keys.
        UnsupportedOperationError: when the selector wants to be opened.
    """
    is_field = isinstance(key_selector, str | int) and not isinstance(key_selector, bool)
    if isinstance(key_selector, list | tuple):
        named = ", ".join(map(repr, key_selector)) if all(map(_is_column, key_selector)) else "'a', 'b'"
        raise refused(
            f"key_by takes several fields one by one: key_by({named}), not {key_selector!r}", InvalidTypeError
        )
    if is_field:
        fields = _checked_field(record_type, key_selector, "key_by")
    else:
        check_function(key_selector, KeySelector, "get_key", is_opened=False)
        check_returns(key_selector, "get_key")
        fields = _picked_fields(record_type, key_selector)
    picked: TypeInformation | None = None
    if fields is not None:
        types = list(map(record_type.field_types.__getitem__, map(record_type.field_index, fields)))
        picked = types[0] if len(types) == 1 else Types.TUPLE(types)
    found = picked or infer_from_hint(_function_of(key_selector)) if key_type is None else declared_type(key_type)
    # A key that is declared as something else than the field is has to be made by the selector.
    kept = fields if found == picked else None
    return KeySelection(
        codec=_codec_of(found),
        selector=_selector_of_field(record_type, key_selector) if is_field else _called(key_selector),
        fields=kept,
        is_single=fields is None or len(fields) == 1,
        expression=bind_tuple(tuple(map(col, kept)), record_type) if kept is not None and len(kept) > 1 else None,
        call_site=caller(),
    )


def selector_of(record_type: TypeInformation, selector: object, method: str) -> Callable[[Any], Any]:
    """The function that is called with a record, for the name or position of a field, a ``KeySelector`` or a function.

    Args:
        record_type: the type of the records.
        selector: what the program gave.
        method: to which method, for messages.

    Raises:
        InvalidTypeError: when it is none of these, or there is no such field.
        UnsupportedOperationError: when the selector wants to be opened.
    """
    if isinstance(selector, str | int) and not isinstance(selector, bool):
        _checked_field(record_type, selector, method)
        return _selector_of_field(record_type, selector)
    check_function(selector, KeySelector, "get_key", is_opened=False)
    check_returns(selector, "get_key")
    return _called(selector)


def _computed(record_type: TypeInformation, columns: tuple[Expression, ...], key_type: object) -> KeySelection:
    """Keys that expressions compute: one is the key, several are the fields of a tuple."""
    plain = [column.key for column in columns if isinstance(column, Column) and record_type.is_composite]
    if len(plain) == len(columns) == 1:
        return key_selection(record_type, plain[0], key_type)
    values = [bound(column, record_type, "key_by") for column in columns]
    key = values[0] if len(values) == 1 else bind_tuple(columns, record_type)
    check_same_type("key_by", key, key_type)
    return KeySelection(
        codec=_codec_of(key.type),
        selector=None,
        fields=tuple(plain) if len(plain) == len(columns) else None,
        is_single=len(columns) == 1,
        expression=key,
        names=_names_of(columns, record_type),
        call_site=caller(),
    )


def _names_of(columns: tuple[Expression, ...], record_type: TypeInformation) -> tuple[str, ...] | None:
    """The names of a computed key's columns in window results: the expressions' own names if all have one."""
    names = [name_of(column, record_type) for column in columns]
    known = tuple(name for name in names if name is not None)
    return known if len(known) == len(names) else None


def _selector_of_field(record_type: TypeInformation, field: str | int) -> FieldSelector:
    """Takes a field by what the records know it by: these classes by name, all others by position."""
    if not record_type.is_composite:
        return FieldSelector(field)
    index = record_type.field_index(field)
    by_name = isinstance(record_type, DictTypeInfo | DataclassTypeInfo)
    return FieldSelector(record_type.field_names[index] if by_name else index)


def _checked_field(record_type: TypeInformation, field: str | int, method: str) -> Fields | None:
    if not record_type.is_composite:
        if record_type.arrow_type is None:
            return None  # what the records are is known when they come
        text = f"{method}({field!r}): records of type {record_type} have no fields"
        raise refused(f"{text}: lambda record: record is the record itself", InvalidTypeError)
    type_of_field(record_type, field, f"{method}({field!r})")
    return (field,)


def _picked_fields(record_type: TypeInformation, key_selector: object) -> Fields | None:
    """The fields that a function picks, where the record's type has just these."""
    fields = field_of_selector(_function_of(key_selector))
    if fields is None or not record_type.is_composite:
        return None
    names = record_type.field_names
    is_dict = isinstance(record_type, DictTypeInfo)
    for field in fields:
        known = field in names if isinstance(field, str) else not is_dict and -len(names) <= field < len(names)
        if not known:
            return None  # the function does as it says, and fails if it has to
    positions = {record_type.field_index(field) for field in fields}
    return fields if len(positions) == len(fields) else None  # a window could not call two columns alike


def _codec_of(key_type: TypeInformation) -> KeyCodec:
    try:
        return KeyCodec.for_type(key_type)
    except InvalidTypeError as error:
        raise refused(f"key_by: {error}", InvalidTypeError) from None


def _function_of(key_selector: Any) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = method_of_object(key_selector, "get_key") or key_selector
    return function


def _called(key_selector: object) -> Callable[[Any], Any]:
    """The function that is called with a record to get its key.

    Raises:
        UnsupportedOperationError: when the selector wants to be opened.
    """
    check_is_not_opened(key_selector, KeySelector, "key selector", "put into the record what the key needs, with map()")
    check_has_no_state(key_selector, "key selector", _STATE_BEFORE)
    return _function_of(key_selector)


def check_same_keys(
    first: TypeInformation, second: TypeInformation, method: str, keys: str = "both key_by(...)"
) -> None:
    """Refuse streams with keys of different types, which are never equal.

    Args:
        first: the type of the keys of one stream.
        second: that of the other one.
        method: what brings them together, for messages.
        keys: what says what the keys are, for messages.

    Raises:
        InvalidTypeError: when they are.
    """
    if first != second:
        raise refused(
            f"{method} takes streams with keys of the same type, not {first} and {second}: take fields of one type, or "
            f"give {keys} the same key_type",
            InvalidTypeError,
        )


Field = str | int

_MORE_ARGUMENTS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_NO_PLAIN_RESULT: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _Picked:
    """Stands for a field of the record; can do nothing."""

    __slots__ = ("field",)

    def __init__(self, field: Field) -> None:
        self.field = field

    def __eq__(self, *_: object) -> Any:
        raise TypeError("for another record a field may equal something")

    __hash__ = __eq__


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


def field_of_selector(selector: object) -> tuple[Field, ...] | None:
    """The fields that a key selector picks: one for ``lambda x: x[0]``, several for ``lambda x: (x.a, x.b)``.

    Lambdas, functions, methods, ``operator.itemgetter`` and ``attrgetter`` are understood when they do just this with
    their only argument. What is called is a copy of the function that has no branches and sees no names beside its
    argument, so neither does anything happen, nor could it pick anything else for another record. A tuple of one field,
    ``lambda x: (x[0],)``, is not reported, since it could not be distinguished from the field itself.

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
    """Returns True for code that takes so many arguments, has no other variables or functions, and never branches.

    A field that is given a name, if only that of the argument, could be read twice, and compared with ``is``.
    """
    has_more = code.co_kwonlyargcount or code.co_flags & (_MORE_ARGUMENTS | _NO_PLAIN_RESULT)
    if has_more or not code.co_argcount == code.co_nlocals == arguments or code.co_freevars or code.co_cellvars:
        return False
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        return False
    if any("STORE_FAST" in instruction.opname for instruction in dis.get_instructions(code)):
        return False
    return not (code.co_exceptiontable or any(each.is_jump_target for each in dis.get_instructions(code)))
