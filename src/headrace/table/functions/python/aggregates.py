"""Calls of user-defined aggregate functions, in the form of the operators."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.common.arrays import list_lengths
from headrace.common.errors import UnsupportedOperationError, UserFunctionError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.typeinfo.types import type_of_logical
from headrace.operators.aggregates.calls.call import CallBinding, Remembered
from headrace.operators.aggregates.calls.inputs import Boxed
from headrace.operators.aggregates.record_function import RecordAggregator
from headrace.operators.functions import has_own
from headrace.operators.user_code import is_interruption, what_happened
from headrace.table.functions.definitions import USER_FUNCTION, FunctionDefinition
from headrace.table.functions.python.calls import column_of
from headrace.table.functions.python.decorators import UserFunction
from headrace.table.logical.scalars import Options


@dataclass(frozen=True, eq=False)
class UserAggregate:
    """A user-defined aggregate function.

    Attributes:
        user: the function.
        accumulator: the type of its accumulators.
    """

    user: UserFunction
    accumulator: TypeInformation

    def __call__(self, of: CallBinding) -> Remembered:
        """The aggregators of a call, and the function of their results.

        Raises:
            UnsupportedOperationError: when the function lacks a method that the call needs.
        """
        if of.call.is_distinct:
            raise UnsupportedOperationError(
                f"{self.user.name}(DISTINCT ...) cannot be executed: write SELECT DISTINCT in a subquery"
            )
        if self.user.form == "general":
            return self._by_record(of)
        places = tuple(range(len(of.call.arguments)))
        emit = ValuesOfColumns(self.user, of.arrow_type)
        return Remembered((of.ordered(places, skips_nulls=False),), emit, is_ordered=True)

    def _by_record(self, of: CallBinding) -> Remembered:
        function, call = self.user.function, of.call
        if of.retracts and not has_own(function, "retract"):
            raise UnsupportedOperationError(f"{self.user.name} has no retract(), but its rows may be retracted")
        aggregator = RecordAggregator(
            of.name(f"{self.user.name}:"),
            4,
            function,
            self.user.name,
            has_own(function, "merge"),
            Boxed(call.arguments or (0,), call.filter),
            self.accumulator,
            tuple(of.info(place) for place in range(len(call.arguments))),
            type_of_logical(call.type.as_nullable()),
        )
        return Remembered((aggregator,), is_ordered=True)


@dataclass(frozen=True)
class ValuesOfColumns:
    """Calls a vectorized aggregate function with a column for each argument, once per group.

    Attributes:
        user: the function.
        storage: the type of the values.
    """

    user: UserFunction
    storage: pa.DataType

    def __call__(self, results: Sequence[pa.Array]) -> pa.Array:
        """The values."""
        columns = results[0].flatten().flatten()
        ends = np.concatenate(([0], np.cumsum(list_lengths(results[0]))))
        groups = ([column.slice(start, stop - start) for column in columns] for start, stop in pairwise(ends))
        return pa.array([self._value(self.user.function, group) for group in groups], self.storage)

    def _value(self, function: Callable[..., Any], group: list[pa.Array]) -> Any:
        given = [column.to_pandas() for column in group] if self.user.form == "pandas" else group
        try:
            found = function(*given)
            return column_of(found if isinstance(found, pa.Scalar) else [found], self.storage, 1)[0].as_py()
        except BaseException as error:
            if is_interruption(error):
                raise
            trace = "\n".join(what_happened(error))
            raise UserFunctionError(f"{self.user.name}() of {len(group[0])} rows failed\n{trace}") from error


def user_aggregate(options: Options) -> UserAggregate | None:
    """The user-defined function in a call's options; None for a built-in one."""
    definition: FunctionDefinition | None = dict(options).get(USER_FUNCTION)
    return None if definition is None or definition.user is None else _aggregate(definition.user)


@lru_cache(maxsize=1024)
def _aggregate(user: UserFunction) -> UserAggregate:
    kind = user.accumulator_type
    return UserAggregate(user, Types.PICKLED_BYTE_ARRAY() if kind is None else type_of_logical(kind))
