"""The classes that user-defined functions extend."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from headrace.common.errors import UnsupportedOperationError
from headrace.operators.functions import FunctionContext, does_nothing


class UserDefinedFunction(ABC):  # noqa: B024 - its subclasses say what is called
    """A user-defined function. It is opened before its first call in a task, and closed after the last one.

    Examples:
        >>> from headrace.table.udf import ScalarFunction, UserDefinedFunction
        >>> issubclass(ScalarFunction, UserDefinedFunction)
        True
    """

    @does_nothing
    def open(self, function_context: FunctionContext) -> None:
        """Called before any other method.

        Args:
            function_context: the task that calls the function.
        """

    @does_nothing
    def close(self) -> None:
        """Called after all other methods."""

    def is_deterministic(self) -> bool:
        """Return whether equal arguments always give the same result; others are called once for each row."""
        return True


class ScalarFunction(UserDefinedFunction):
    """A function that returns a value for each row.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> from headrace.table.udf import ScalarFunction, udf
        >>> class Scaled(ScalarFunction):
        ...     def __init__(self, factor):
        ...         self.factor = factor
        ...     def eval(self, value):
        ...         return None if value is None else value * self.factor
        >>> tables = TableEnvironment.create()
        >>> tables.create_temporary_system_function("tripled", udf(Scaled(3), result_type="BIGINT"))
        >>> tables.execute_sql("SELECT tripled(14) AS answer").print()
        +----+----------------------+
        | op |               answer |
        +----+----------------------+
        | +I |                   42 |
        +----+----------------------+
        Received a total of 1 row
    """

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """The value for a row."""


class TableFunction(UserDefinedFunction):
    """A function that returns any number of rows for each row.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> from headrace.table.udf import TableFunction, udtf
        >>> class Words(TableFunction):
        ...     def eval(self, text):
        ...         for word in text.split():
        ...             yield word, len(word)
        >>> tables = TableEnvironment.create()
        >>> tables.create_temporary_function("words", udtf(Words(), result_types="ROW<word STRING, size INT>"))
        >>> with tables.execute_sql("SELECT word, size FROM TABLE(words('some tea'))").collect() as rows:
        ...     sorted(tuple(row) for row in rows)
        [('some', 4), ('tea', 3)]
    """

    @abstractmethod
    def eval(self, *args: Any) -> Iterable[Any] | None:
        """The rows for a row: each a ``Row`` or a tuple, or a value where there is one column."""


class ImperativeAggregateFunction(UserDefinedFunction):
    """A function that updates an accumulator row by row.

    Examples:
        >>> from headrace.table.udf import AggregateFunction, ImperativeAggregateFunction
        >>> issubclass(AggregateFunction, ImperativeAggregateFunction)
        True
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """The accumulator of no rows."""

    @abstractmethod
    def accumulate(self, accumulator: Any, *args: Any) -> None:
        """Add a row to an accumulator, in place."""

    @does_nothing
    def retract(self, accumulator: Any, *args: Any) -> None:
        """Retract a row from an accumulator, in place; required if rows may be retracted."""
        raise UnsupportedOperationError(f"{type(self).__name__} has no retract()")

    @does_nothing
    def merge(self, accumulator: Any, accumulators: Iterable[Any]) -> None:
        """Merge other accumulators into one, in place; required by merging windows."""
        raise UnsupportedOperationError(f"{type(self).__name__} has no merge()")

    def get_result_type(self) -> Any:
        """The type of the result, if ``udaf`` is given none."""
        return None

    def get_accumulator_type(self) -> Any:
        """The type of the accumulator, if ``udaf`` is given none."""
        return None


class AggregateFunction(ImperativeAggregateFunction):
    """A function that returns a value for each group of rows.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> from headrace.table.udf import AggregateFunction, udaf
        >>> class Range(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return []
        ...     def accumulate(self, accumulator, value):
        ...         values = [*accumulator, value]
        ...         accumulator[:] = [min(values), max(values)]
        ...     def get_value(self, accumulator):
        ...         return accumulator[1] - accumulator[0]
        >>> tables = TableEnvironment.create()
        >>> spread = udaf(Range(), result_type="INT", accumulator_type="ARRAY<INT>")
        >>> tables.create_temporary_system_function("spread", spread)
        >>> with tables.execute_sql("SELECT spread(n) FROM (VALUES (3), (9), (5)) AS t(n)").collect() as changes:
        ...     [row[0] for row in changes][-1]
        6
    """

    @abstractmethod
    def get_value(self, accumulator: Any) -> Any:
        """The value of an accumulator, which must not be changed here."""
