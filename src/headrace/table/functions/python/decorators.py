"""``udf``, ``udtf`` and ``udaf``: declarations of user-defined functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.common.typeinfo.types import hints_of
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.python.classes import (
    AggregateFunction,
    ScalarFunction,
    TableFunction,
    UserDefinedFunction,
)

DataType = Any
"""A type in a declaration: SQL text, one of ``Types``, or a class."""

_FORMS: Final = ("general", "pandas", "arrow")
_CLASSES: Final = {
    FunctionKind.SCALAR: ScalarFunction,
    FunctionKind.TABLE: TableFunction,
    FunctionKind.AGGREGATE: AggregateFunction,
}
_MAKERS: Final = {FunctionKind.SCALAR: "udf", FunctionKind.TABLE: "udtf", FunctionKind.AGGREGATE: "udaf"}


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A Python function with its SQL declaration.

    Attributes:
        function: the function, or an object of a class that extends ``ScalarFunction`` and its like.
        kind: scalar, table or aggregate.
        input_types: the types that arguments are cast to; None to take any.
        result_type: the type of the result; of a table function the type of the rows, or those of the columns.
        form: the form of its arguments: ``general`` for the values of a row, ``arrow`` or ``pandas`` for columns.
        is_deterministic: whether equal arguments always give the same result.
        name: its name in messages.
        accumulator_type: the type of the accumulator of an aggregate function.
    """

    function: Any
    kind: FunctionKind
    input_types: tuple[DataType, ...] | None
    result_type: DataType
    form: str
    is_deterministic: bool
    name: str
    accumulator_type: DataType = None

    def __call__(self, *args: Any) -> NoReturn:
        """Refused, since the Table API has no expressions yet.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            f"{self.name} is called in SQL: create_temporary_system_function({self.name!r}, ...), and then "
            f"SELECT {self.name}(...)"
        )


def udf(
    f: Any = None,
    input_types: DataType | Sequence[DataType] = None,
    result_type: DataType = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Declare a scalar function, as a decorator or by a call.

    Args:
        f: a function of the arguments, or a ``ScalarFunction``.
        input_types: the types to which arguments are cast; by default any types are accepted.
        result_type: the type of the result: text of SQL, one of ``Types``, or a class; by default the annotation.
        deterministic: whether equal arguments always give the same result; by default they do.
        name: the name in messages.
        func_type: ``general`` to be called for each row; ``arrow`` or ``pandas`` to be called with an array or a series
            for each argument, which then gives one of as many values.

    Examples:
        >>> import pyarrow.compute as pc
        >>> from headrace.table import TableEnvironment
        >>> from headrace.table.udf import udf
        >>> @udf(result_type="STRING")
        ... def initials(name):
        ...     return "".join(part[0] for part in name.split())
        >>> @udf(result_type="BIGINT", func_type="arrow")
        ... def doubled(numbers):
        ...     return pc.multiply(numbers, 2)
        >>> tables = TableEnvironment.create()
        >>> tables.create_temporary_function("initials", initials)
        >>> tables.create_temporary_function("doubled", doubled)
        >>> with tables.execute_sql("SELECT initials('Ada Lovelace'), doubled(21)").collect() as rows:
        ...     print(*rows)
        Row(EXPR$0='AL', EXPR$1=42)
    """
    return _Declaration(FunctionKind.SCALAR, input_types, result_type, deterministic, name, func_type).of(f)


def udtf(
    f: Any = None,
    input_types: DataType | Sequence[DataType] = None,
    result_types: DataType | Sequence[DataType] = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Declare a table function, as a decorator or by a call.

    Args:
        f: a generator of rows, or a ``TableFunction``.
        input_types: the types to which arguments are cast; by default any types are accepted.
        result_types: the type of each column, or of the rows: ``"ROW<word STRING, size INT>"``.
        deterministic: whether equal arguments always give the same result; by default they do.
        name: the name in messages.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> from headrace.table.udf import udtf
        >>> @udtf(result_types=["INT"])
        ... def numbers(count):
        ...     yield from range(count)
        >>> tables = TableEnvironment.create()
        >>> tables.create_temporary_function("numbers", numbers)
        >>> query = "SELECT n, i FROM (VALUES (1), (2)) AS t(n) CROSS JOIN LATERAL TABLE(numbers(n)) AS u(i)"
        >>> with tables.execute_sql(query).collect() as rows:
        ...     sorted(tuple(row) for row in rows)
        [(1, 0), (2, 0), (2, 1)]
    """
    return _Declaration(FunctionKind.TABLE, input_types, result_types, deterministic, name).of(f)


def udaf(
    f: Any = None,
    input_types: DataType | Sequence[DataType] = None,
    result_type: DataType = None,
    accumulator_type: DataType = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Declare an aggregate function, as a decorator or by a call.

    Args:
        f: an ``AggregateFunction``; or, with another ``func_type``, a function of columns.
        input_types: the types to which arguments are cast; by default any types are accepted.
        result_type: the type of the result.
        accumulator_type: the type that accumulators have in state; they are pickled where there is none.
        deterministic: whether equal arguments always give the same result; by default they do.
        name: the name in messages.
        func_type: ``general`` for an ``AggregateFunction``; ``arrow`` or ``pandas`` for a function that is called with
            an array or a series of all values of a group for each argument. All of them are in state.

    Examples:
        >>> import pyarrow.compute as pc
        >>> from headrace.table import EnvironmentSettings, TableEnvironment
        >>> from headrace.table.udf import udaf
        >>> @udaf(result_type="DOUBLE", func_type="arrow")
        ... def middle(values):
        ...     return pc.quantile(values)[0]
        >>> tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        >>> tables.create_temporary_function("middle", middle)
        >>> with tables.execute_sql("SELECT middle(n) FROM (VALUES (3), (9), (5)) AS t(n)").collect() as rows:
        ...     print(*rows)
        Row(EXPR$0=5.0)
    """
    kind = FunctionKind.AGGREGATE
    return _Declaration(kind, input_types, result_type, deterministic, name, func_type, accumulator_type).of(f)


def udtaf(*_: Any, **__: Any) -> NoReturn:
    """Refused, since table aggregate functions are called by the fluent Table API, which does not exist yet.

    Raises:
        UnsupportedOperationError: always.

    Examples:
        >>> from headrace.table.udf import udtaf
        >>> udtaf(None)
        Traceback (most recent call last):
        ...
        headrace.common.errors.UnsupportedOperationError: table aggregate functions cannot be called in SQL: ...
    """
    raise UnsupportedOperationError(
        "table aggregate functions cannot be called in SQL: write ROW_NUMBER() OVER (...), or a KeyedProcessFunction"
    )


def as_user_function(given: Any, name: str) -> UserFunction:
    """The user-defined function that a program registers: declared, or a function or object with its own types.

    Raises:
        InvalidProgramError: when it is none of these.
    """
    if isinstance(given, UserFunction):
        return given
    if inspect.isclass(given) and issubclass(given, UserDefinedFunction):
        given = given()
    kinds = (kind for kind, base in _CLASSES.items() if isinstance(given, base))
    kind = next(kinds, FunctionKind.SCALAR)
    if not callable(given) and not isinstance(given, UserDefinedFunction):
        raise InvalidProgramError(f"{name} is not a function: {given!r}; declare one with udf(), udtf() or udaf()")
    return _Declaration(kind).made(given)


@dataclass(frozen=True)
class _Declaration:
    """The arguments of ``udf``, ``udtf`` or ``udaf`` besides the function."""

    kind: FunctionKind
    input_types: DataType | Sequence[DataType] = None
    result_type: DataType = None
    deterministic: bool | None = None
    name: str | None = None
    form: str = "general"
    accumulator_type: DataType = None

    def of(self, function: Any) -> UserFunction | Callable[[Any], UserFunction]:
        """The declared function; a decorator if no function is given."""
        if self.form not in _FORMS:
            raise InvalidProgramError(f"func_type must be one of {', '.join(_FORMS)}, not {self.form!r}")
        return self.made if function is None else self.made(function)

    def made(self, function: Any) -> UserFunction:
        """The declared function.

        Raises:
            InvalidProgramError: when it is not a function of the kind, or its types are unknown.
        """
        _check_function(self.kind, function, self.form)
        name = self.name or str(getattr(function, "__name__", type(function).__name__))
        result = _result_type_of(function) if self.result_type is None else self.result_type
        if result is None:
            raise InvalidProgramError(
                f'{name} needs a type: {_MAKERS[self.kind]}(..., {_parameter(self.kind)}="BIGINT")'
            )
        inputs, accumulator = _listed(self.input_types), self.accumulator_type
        if accumulator is None and isinstance(function, AggregateFunction):
            accumulator = function.get_accumulator_type()
        is_deterministic = self.deterministic
        if is_deterministic is None:
            is_deterministic = not isinstance(function, UserDefinedFunction) or function.is_deterministic()
        return UserFunction(function, self.kind, inputs, result, self.form, is_deterministic, name, accumulator)


def _parameter(kind: FunctionKind) -> str:
    return "result_types" if kind is FunctionKind.TABLE else "result_type"


def _listed(types: DataType | Sequence[DataType]) -> tuple[DataType, ...] | None:
    if types is None:
        return None
    return tuple(types) if isinstance(types, list | tuple) else (types,)


def _check_function(kind: FunctionKind, function: Any, form: str) -> None:
    wanted, maker = _CLASSES[kind], _MAKERS[kind]
    if inspect.isclass(function):
        raise InvalidProgramError(f"{maker}() takes an object, not a class: write {function.__name__}()")
    if isinstance(function, UserDefinedFunction) and not isinstance(function, wanted):
        raise InvalidProgramError(f"{maker}() takes a {wanted.__name__}, not a {type(function).__name__}")
    if not isinstance(function, UserDefinedFunction) and not callable(function):
        raise InvalidProgramError(f"{maker}() takes a function, or a {wanted.__name__}, not {function!r}")
    if inspect.iscoroutinefunction(getattr(function, "eval", function)):
        raise UnsupportedOperationError(f"{maker}() does not take async functions: call services with AsyncDataStream")
    if kind is FunctionKind.AGGREGATE and form == "general" and not isinstance(function, AggregateFunction):
        raise InvalidProgramError('udaf() takes an AggregateFunction, or a function of columns with func_type="arrow"')


def _result_type_of(function: Any) -> DataType:
    """The type that a function itself declares, by ``get_result_type`` or an annotation."""
    if isinstance(function, AggregateFunction) and (kind := function.get_result_type()) is not None:
        return kind
    method: Callable[..., Any] = function
    if isinstance(function, UserDefinedFunction):
        method = getattr(function, "get_value", None) or function.eval  # type: ignore[attr-defined]
    return hints_of(method).get("return")
