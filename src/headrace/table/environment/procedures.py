"""Procedures as functions of Python: what their annotations say is the SQL signature."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError
from headrace.common.logical_types import LogicalType, decimal
from headrace.common.plugins import installed_in
from headrace.common.typeinfo.types import hints_of
from headrace.table.bind.user_functions import logical_type
from headrace.table.catalog.procedures import Parameter, Procedure
from headrace.table.environment.system_procedures import PROCEDURES
from headrace.table.logical.schema import Field, Schema

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

GROUP: Final = "headrace.procedures"
"""The group of entry points by which other distributions offer procedures."""

_DECIMAL: Final = decimal(38, 18)

_LISTS: Final = (list, Sequence, Iterable, Iterator, Generator)

_ENVIRONMENTS: Final = ("TableEnvironment", "StreamTableEnvironment", "TableSession")


def procedure_of(name: str, function: Any, tables: TableSession) -> Procedure:
    """The procedure of a function.

    The annotations of its parameters and of its result are their types; what has a default may be left out of a call. A
    first parameter of type ``TableEnvironment`` is no parameter of the procedure: it is given the environment of the
    call. A result of a dataclass or named tuple, or a list of these, is rows with its fields as columns; any other
    one, or a list of these, is the column ``result``; None is the result ``OK``. A result that may be None as well
    has no rows then, unless it is a value: that is NULL.

    Args:
        name: its name in SQL.
        function: the function.
        tables: the environment that it is given.

    Raises:
        InvalidProgramError: when it is no function, or an annotation is missing or no type of SQL.
    """
    if not callable(function) or isinstance(function, type):
        raise InvalidProgramError(f"procedure {name!r} is a function of Python, and not {function!r}")
    hints = hints_of(function)
    parameters = list(inspect.signature(function).parameters.values())
    given: list[Any] = []
    if parameters and _is_environment(parameters[0].annotation):
        given.append(tables)
        del parameters[0]
    found = tuple(_parameter(name, each, hints) for each in parameters)
    declared = _result(name, hints)

    def run(arguments: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        result = function(*given, *arguments)
        return declared.rows(result)

    return Procedure(name, found, declared.columns, run)


def _is_environment(annotation: object) -> bool:
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.rpartition(".")[2] in _ENVIRONMENTS


def _parameter(procedure: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Parameter:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise InvalidProgramError(f"procedure {procedure!r}: parameter {parameter} has to be one that has a position")
    hint, takes_none = _without_none(hints.get(parameter.name, Any))
    kind = _type_of(f"procedure {procedure!r}: parameter {parameter.name!r}", hint)
    is_optional = parameter.default is not parameter.empty
    kind = kind.as_nullable() if takes_none else kind.not_null()
    return Parameter(parameter.name, kind, is_optional, parameter.default if is_optional else None)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without ``None``, and whether it was among the types."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    rest = [each for each in typing.get_args(hint) if each is not type(None)]
    return (rest[0] if len(rest) == 1 else hint), len(rest) < len(typing.get_args(hint))


def _type_of(what: str, hint: Any) -> LogicalType:
    if hint is Any:
        raise InvalidProgramError(f"{what} needs an annotation, such as str, int, float, bool or Decimal")
    if hint is Decimal:
        return _DECIMAL
    try:
        return logical_type(hint)
    except (InvalidTypeError, InvalidProgramError, AttributeError) as error:
        raise InvalidProgramError(f"{what} is {hint!r}, which is no type of SQL: {error}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Result:
    """The type in the annotation of a function's result.

    Attributes:
        procedure: the name of the procedure.
        columns: the columns; None where there is no result.
        is_list: whether it is any number of rows or values.
        is_row: whether it, or what is in it, has fields.
        takes_none: whether it may be None.
    """

    procedure: str
    columns: Schema | None
    is_list: bool = False
    is_row: bool = False
    takes_none: bool = False

    def rows(self, result: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a result: of None none, unless None is a value."""
        if self.columns is None or (result is None and self.takes_none and (self.is_list or self.is_row)):
            return
        if self.is_list and (isinstance(result, str | bytes) or not isinstance(result, Iterable)):
            raise InvalidProgramError(
                f"procedure {self.procedure!r} has given {result!r}, and its annotation says rows or values"
            )
        for each in result if self.is_list else [result]:
            yield self._row(each, len(self.columns))

    def _row(self, value: Any, width: int) -> tuple[Any, ...]:
        if not self.is_row:
            return (value,)
        if dataclasses.is_dataclass(value):
            value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
        if not isinstance(value, tuple) or len(value) != width:
            raise InvalidProgramError(
                f"procedure {self.procedure!r} has given {value!r} for a row, and its annotation says {width} values"
            )
        return tuple(value)


def _result(procedure: str, hints: Mapping[str, Any]) -> _Result:
    what = f"the result of procedure {procedure!r}"
    if "return" not in hints:
        raise InvalidProgramError(f"{what} needs an annotation, such as -> None, -> str or -> list[str]")
    hint, takes_none = _without_none(hints["return"])
    if hint is None or hint is type(None):
        return _Result(procedure, None)
    is_list = _is_list(hint)
    if is_list:
        hint, _ = _without_none(typing.get_args(hint)[0])
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, tuple)):
        fields = hints_of(hint)
        if not fields:
            raise InvalidProgramError(f"{what} is {hint.__name__}, whose fields have no annotations")
        kinds = (_type_of(f"field {name!r} of {what}", _without_none(each)[0]) for name, each in fields.items())
        return _Result(procedure, Schema(tuple(map(Field, fields, kinds))), is_list, True, takes_none)
    return _Result(procedure, Schema((Field("result", _type_of(what, hint)),)), is_list, False, takes_none)


def _is_list(hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    return origin in _LISTS or (origin is tuple and arguments[1:] == (...,))


class SystemProcedures:
    """The procedures of the database ``sys``: those of headrace, and those of other distributions.

    Args:
        tables: the environment that they are given.
    """

    def __init__(self, tables: TableSession) -> None:
        self._tables = tables

    def __deepcopy__(self, memo: object) -> SystemProcedures:
        """Itself: a copy of catalogs, on which a statement is tried, runs nothing."""
        return self

    @cached_property
    def _own(self) -> dict[str, Procedure]:
        return {name: procedure_of(name, function, self._tables) for name, function in PROCEDURES.items()}

    def names(self) -> list[str]:
        """Their names, sorted."""
        return sorted({*PROCEDURES, *(name.lower() for name in installed_in(GROUP))})

    def get(self, name: str) -> Procedure | None:
        """The procedure of a name, in any case; None where there is none.

        Raises:
            InvalidProgramError: when it cannot be imported, or is no procedure.
        """
        if (own := self._own.get(name.lower())) is not None:
            return own
        entry = next((each for key, each in installed_in(GROUP).items() if key.lower() == name.lower()), None)
        if entry is None:
            return None
        try:
            function = entry.load()
        except HeadraceError:
            raise
        except Exception as error:
            raise InvalidProgramError(
                f"procedure {name!r} cannot be loaded from {entry.value}: {type(error).__name__}: {error}"
            ) from error
        return procedure_of(entry.name, function, self._tables)
