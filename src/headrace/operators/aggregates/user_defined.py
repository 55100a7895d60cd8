"""Aggregates of one's own over Arrow columns: the class that users extend, and the aggregator that calls it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from headrace.common.arrays import list_lengths, lists_of
from headrace.common.call_site import of_function, of_traceback
from headrace.common.errors import InvalidTypeError, UserFunctionError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.expressions import Expression
from headrace.operators.aggregates.aggregate import Aggregate, InputColumn
from headrace.operators.aggregates.aggregator import Aggregator, BoundAggregate, Fields, GroupedRows, Input
from headrace.operators.user_code import OperatorPlace, is_interruption
from headrace.state.runs.grouping import Segments


class ArrowAggregateFunction(ABC):
    """An aggregate that is computed for many groups at a time, on Arrow arrays.

    An accumulator is a row of a few columns, of which ``accumulator_types`` has the types. Columns of records and
    of accumulators come group after group; the ``Segments`` beside them have the beginning of each group, and reduce
    arrays by group: ``groups.reduce(numpy.add, values)``. Every group has a row at least.

    A result must not depend on how the records were cut: merging has to be associative and commutative. State and
    checkpoints refer to the class by its name; after a rename they are refused.

    Class attributes:
        accumulator_types: the types of the columns of an accumulator.
        result_type: the type of the result.

    Examples:
        >>> import numpy as np, pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.datastream.aggregates import ArrowAggregateFunction
        >>> class Longest(ArrowAggregateFunction):
        ...     accumulator_types = (Types.INT(),)
        ...     result_type = Types.INT()
        ...     def create(self, count):
        ...         return [pa.array(np.zeros(count, np.int32))]
        ...     def add(self, accumulators, columns, groups):
        ...         lengths = pa.compute.utf8_length(columns[0]).fill_null(0).to_numpy()
        ...         return self.merge([pa.array(lengths)], groups)
        ...     def merge(self, accumulators, groups):
        ...         return [pa.array(groups.reduce(np.maximum, accumulators[0].to_numpy()))]
        ...     def result(self, accumulators):
        ...         return accumulators[0]
        >>> longest = Longest().of("name").alias("longest")
    """

    accumulator_types: ClassVar[Sequence[TypeInformation]]
    result_type: ClassVar[TypeInformation]

    @abstractmethod
    def create(self, count: int) -> Sequence[pa.Array]:
        """The columns of ``count`` accumulators to which nothing was added yet."""

    @abstractmethod
    def add(
        self, accumulators: Sequence[pa.Array], columns: Sequence[pa.Array], groups: Segments
    ) -> Sequence[pa.Array]:
        """The accumulators with the records of their groups added.

        Args:
            accumulators: one for each group.
            columns: the columns of the records that the aggregate is of, nulls included.
            groups: where each group's records are in these columns.
        """

    def retract(
        self, accumulators: Sequence[pa.Array], columns: Sequence[pa.Array], groups: Segments
    ) -> Sequence[pa.Array]:
        """The accumulators with the records of their groups taken back.

        The records may have been added to other accumulators, which these are merged with later, so what is left may
        be less than nothing. Without this method the aggregate is refused where records can be taken back.
        """
        raise NotImplementedError

    @abstractmethod
    def merge(self, accumulators: Sequence[pa.Array], groups: Segments) -> Sequence[pa.Array]:
        """One accumulator for each group of accumulators."""

    @abstractmethod
    def result(self, accumulators: Sequence[pa.Array]) -> pa.Array:
        """The result of each accumulator."""

    def of(self, *columns: str | int | Expression) -> Aggregate:
        """The aggregate of some columns, or of records that are a single value; for ``window.aggregate(...)``."""
        name, can_retract = type(self).__name__, type(self).retract is not ArrowAggregateFunction.retract
        return Aggregate(
            name,
            columns or (None,),
            self._bound,
            default_name=name,
            why_not_retractable="" if can_retract else "it has no retract()",
        )

    def _bound(self, name: str, *columns: InputColumn) -> BoundAggregate:
        kind = f"{name} = {type(self).__qualname__}({', '.join(each.name for each in columns)})"
        sources = tuple(each.source for each in columns)
        aggregator = UserAggregator(kind, len(self.accumulator_types), self, sources)
        return BoundAggregate(name, self.result_type, (aggregator,))


@dataclass(frozen=True, slots=True)
class UserParts(Aggregator):
    """Accumulators of a function that is not known: lists of parts, which merging appends to one another.

    Merging runs of state can do no more; an operator that has the function merges the parts.

    Attributes:
        name: the name of the output column and of the function's class.
        width: how many columns an accumulator has.
    """

    stored_name: ClassVar[str] = "UserDefined"
    parameters: ClassVar[tuple[str, ...]] = ("name", "width")
    name: str
    width: int

    @property
    def fields(self) -> Fields:
        return tuple((f"{self.name}.{i}", Types.LIST(Types.PICKLED_BYTE_ARRAY())) for i in range(self.width))

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        raise NotImplementedError("the function is not known where runs of state are merged")

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        lengths = segments.reduce(np.add, list_lengths(columns[0]))
        return [lists_of(column.flatten(), lengths) for column in columns]


@dataclass(frozen=True, slots=True)
class UserAggregator(UserParts):
    """Calls a function of the user.

    Attributes:
        function: the function.
        sources: what it looks at.
        place: the operator that it is of, once that is known.
    """

    function: ArrowAggregateFunction
    sources: tuple[Input, ...]
    place: OperatorPlace | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.sources

    def of_operator(self, place: OperatorPlace) -> Self:
        return replace(self, place=place)

    @property
    def fields(self) -> Fields:
        return tuple((f"{self.name}.{i}", Types.LIST(t)) for i, t in enumerate(self.function.accumulator_types))

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return self._changed(self.function.add, rows)

    def retract(self, rows: GroupedRows) -> list[pa.Array]:
        return self._changed(self.function.retract, rows)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        return _lists_of_one(self._merged(UserParts.merge(self, columns, segments)))

    def result(self, columns: list[pa.Array]) -> pa.Array:
        merged = self._merged(columns)
        types = [self.function.result_type]
        return self._called(self.function.result, types, len(columns[0]), merged)[0]

    def _changed(self, change: Callable[..., Sequence[pa.Array]], rows: GroupedRows) -> list[pa.Array]:
        groups, types = rows.groups.segments, self.function.accumulator_types
        empty = self._called(self.function.create, types, len(groups), len(groups))
        columns = [rows.column(source) for source in self.sources]
        return _lists_of_one(self._called(change, types, len(groups), empty, columns, groups))

    def _merged(self, columns: list[pa.Array]) -> list[pa.Array]:
        """The accumulators, each of all parts of a row."""
        lengths = list_lengths(columns[0])
        parts = [column.flatten() for column in columns]
        if len(parts[0]) == len(lengths):
            return parts
        groups = Segments(np.cumsum(lengths) - lengths, len(parts[0]))
        return self._called(self.function.merge, self.function.accumulator_types, len(groups), parts, groups)

    def _called(
        self, method: Callable[..., Any], types: Sequence[TypeInformation], count: int, *arguments: Any
    ) -> list[pa.Array]:
        """The columns that a method gives.

        Raises:
            UserFunctionError: when it raises, or gives something else.
        """
        try:
            found = method(*arguments)
            columns = [found] if method == self.function.result else list(found)
            _check(columns, [type_.storage_type for type_ in types], count)
        except Exception as error:
            if is_interruption(error):
                raise
            where = of_traceback(error.__traceback__) or of_function(method)
            lines = [
                f"{self.place} failed" if self.place else "",
                f"{self.name}: {method.__name__}() failed",
                f"{type(error).__name__}: {error}",
                f"at {where}" if where else "",
                f"operator defined at {self.place.call_site}" if self.place else "",
            ]
            raise UserFunctionError("\n  ".join(filter(None, lines))) from error
        return columns


def _lists_of_one(columns: Sequence[pa.Array]) -> list[pa.Array]:
    return [lists_of(column, np.ones(len(column), np.int64)) for column in columns]


def _check(columns: Sequence[object], types: Sequence[pa.DataType], count: int) -> None:
    """Refuses what is not as many Arrow arrays of these types, of ``count`` elements each."""
    wanted = [f"{type_}[{count}]" for type_ in types]
    found = [f"{c.type}[{len(c)}]" if isinstance(c, pa.Array) else type(c).__name__ for c in columns]
    if found != wanted:
        raise InvalidTypeError(f"it has to give Arrow arrays {', '.join(wanted)}, not {', '.join(found) or 'nothing'}")
