"""The contract of aggregators: how a few columns of accumulators are made, merged and read.

``sum("v")`` and ``avg("v")`` need the same sum; it is kept once. An aggregator makes an accumulator of each group of
rows (``accumulate``), one that takes such rows away again (``retract``), one accumulator of several of the same group
(``merge``), and a value of an accumulator (``result``). Merging is associative, and commutative but for aggregators
that depend on the order of records: nothing depends on how the input was cut.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import Any, ClassVar, Final, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, fixed_width, gather, list_lengths, replaced, validity
from headrace.common.typeinfo import TypeInformation, Types
from headrace.expressions import Bound
from headrace.operators.base import UserCode
from headrace.operators.user_code import OperatorPlace
from headrace.state.evolution import NOTHING_RENAMED, RenamedFields
from headrace.state.runs.grouping import Groups, RowGroups, Segments

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Numbers = TypeVar("Numbers", Longs, npt.NDArray[np.float64])
Merge = Callable[[list[pa.Array], Segments], list[pa.Array]]
Fields = tuple[tuple[str, TypeInformation], ...]


class DerivedColumn(ABC):
    """A column computed from columns of the input without an expression; equal ones are computed once.

    Class attributes:
        needs_state: whether it also follows from what groups have had, which only the operator with their state knows.
    """

    __slots__ = ()
    needs_state: ClassVar[bool] = False

    @abstractmethod
    def of(self, columns: pa.RecordBatch) -> pa.Array:
        """The column."""


Input = int | Bound | DerivedColumn
"""The input of an aggregator: a column of the operator's input by its position, or a value computed from its
columns."""


class GroupedRows:
    """The input columns of a batch, in the order of their groups; a column is gathered once.

    Attributes:
        groups: how the rows are grouped.
        segments: which rows of a column belong to which group.
    """

    segments: RowGroups

    def __init__(self, columns: Mapping[Input, pa.Array], arrivals: Longs, groups: Groups) -> None:
        self.groups, self.segments = groups, groups.segments
        self._columns = columns
        self._arrivals = arrivals
        self._gathered: dict[Input, pa.Array] = {}

    def column(self, source: Input) -> pa.Array:
        """One column, group after group."""
        if source not in self._gathered:
            self._gathered[source] = gather(self._columns[source], self.groups.order)
        return self._gathered[source]

    def first_values(self, index: int) -> pa.Array:
        """One column's value in the earliest row of each group."""
        return gather(self._columns[index], self.groups.first_rows)

    def arrivals(self) -> Longs:
        """Return when each row came, group after group."""
        return self._arrivals[self.groups.order]


class ScatteredRows(GroupedRows):
    """The input columns of a batch as they came, for aggregators that are scatterable; there are no ``groups``."""

    def __init__(self, columns: Mapping[Input, pa.Array], segments: RowGroups) -> None:
        self._columns = columns
        self.segments = segments

    def column(self, source: Input) -> pa.Array:
        return self._columns[source]

    def first_values(self, index: int) -> pa.Array:
        return gather(self._columns[index], self.segments.first_rows)


_KINDS: "Final[dict[str, type[Aggregator]]]" = {}
"""The aggregators by their ``stored_name``; those of modules that are imported."""

BY: Final = " by "
"""The separator between the names of two columns of one input."""


@dataclass(frozen=True, slots=True)
class Aggregator(ABC):
    """Makes and merges accumulators of one kind; equal aggregators are kept once.

    Class attributes:
        stored_name: the name of the kind in the description of stored runs; it must not change.
        parameters: the attributes that such a description holds as well; their values are values of JSON.
        is_scatterable: whether ``accumulate`` reads nothing but columns, first values and ``segments`` of the rows, and
            ``merge`` nothing but what all :class:`RowGroups` have, so that rows need not be sorted by group. Summing
            up is several times as fast then.
        grows: whether an accumulator takes the more memory the more it has been merged of.
        is_idempotent: whether it does not matter that an accumulator is merged twice.
    """

    stored_name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    is_scatterable: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    is_idempotent: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "stored_name" in vars(cls):  # else it is stored as its base class is
            _KINDS[cls.stored_name] = cls

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that it reads."""
        return ()

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The callers of user functions, to be opened and closed with the operator."""
        return ()

    def of_operator(self, place: OperatorPlace) -> Self:
        """The same aggregator; where it calls functions of the user, their failures name the operator."""
        return self

    @property
    @abstractmethod
    def fields(self) -> Fields:
        """Names and types of the columns of an accumulator."""

    @abstractmethod
    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        """The accumulator of each group of rows."""

    @abstractmethod
    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        """The accumulator of each group of accumulators, which lie group after group in order of arrival."""

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        """The accumulators of two tables row by row, of which both have all groups, in the same order."""
        return merged_pairs(self.merge, older, newer)

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        """In place of each accumulator, the one that merges it with all before it in its group.

        As many steps as the longest group has binary digits: each merges what lies twice as far apart as the last.
        """
        places = np.arange(segments.total) - segments.starts[segments.ids]
        distance = 1
        while len(rows := np.flatnonzero(places >= distance)):
            older = [gather(column, rows - distance) for column in columns]
            merged = self.combine(older, [gather(column, rows) for column in columns])
            columns = [replaced(column, rows, values) for column, values in zip(columns, merged, strict=True)]
            distance *= 2
        return columns

    def running_results(self, columns: list[pa.Array], segments: Segments) -> pa.Array:
        """The value of each accumulator merged with all before it in its group.

        Accumulators that grow with what they hold are merged in blocks, since all of them take memory at once.
        """
        blocks, scanned = [], [column.slice(0, 0) for column in columns]
        bounds = _block_bounds(columns, segments) if self.grows else [0, segments.total]
        for start, stop in pairwise(bounds):
            carried = int(start > 0 and start not in segments.starts)
            last = len(scanned[0]) - carried
            block = [
                concat([a.slice(last), b.slice(start, stop - start)]) for a, b in zip(scanned, columns, strict=True)
            ]
            starts = segments.starts[(segments.starts > start) & (segments.starts < stop)] - start + carried
            scanned = self.scan(block, Segments(np.concatenate(([0], starts)), len(block[0])))
            blocks.append(self.result([column.slice(carried) for column in scanned]))
        return concat(blocks) if blocks else self.result(columns)

    def of_ranges(self, columns: list[pa.Array], low: Longs, high: Longs) -> list[pa.Array] | None:
        """The accumulators of non-empty ranges, for aggregators that need not merge to compute them.

        Args:
            columns: the accumulators.
            low: the first one of each range.
            high: the end of each range, exclusive.
        """
        return None

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Accumulators that take away what these add, once they are merged; only where the aggregate can retract."""
        raise NotImplementedError(f"{type(self).__name__} cannot take values back")

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        """Return whether nothing of these accumulators remains where they are merged and later their opposites are.

        Of accumulators that are all reversible, those that are left have to give what they give by themselves.
        """
        return False

    def retract(self, rows: GroupedRows) -> list[pa.Array]:
        """The accumulator of each group that takes its rows away from the accumulators that it is merged with."""
        return self.negate(self.accumulate(rows))

    def settle(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Accumulators that are each of all records of a key, without what does not matter to later ones."""
        return columns

    def result(self, columns: list[pa.Array]) -> pa.Array:
        """The value of each accumulator; null when there was none among the rows."""
        return columns[0]


@dataclass(frozen=True, slots=True)
class ColumnAggregator(Aggregator):
    """An aggregator that looks at one column.

    Attributes:
        column: its position in the input, or the expression that computes it.
        name: its name, for the columns of the accumulator.
    """

    parameters: ClassVar[tuple[str, ...]] = ("name",)
    column: Input
    name: str

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.column,)


def merged_pairs(merge: Merge, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
    """The rows of two tables merged in pairs, by a function that merges groups of rows."""
    count = len(older[0])
    pairs = np.arange(2 * count).reshape(2, count).T.ravel()
    columns = [gather(concat([a, b]), pairs) for a, b in zip(older, newer, strict=True)]
    return merge(columns, Segments(np.arange(0, 2 * count, 2), 2 * count))


def differences(aggregator: Aggregator, columns: list[pa.Array], low: Longs, high: Longs) -> list[pa.Array]:
    """The accumulators of ranges: differences of the running ones at the end and before the start."""
    running = aggregator.scan(columns, Segments(np.zeros(1, np.int64), len(columns[0])))
    found = [gather(column, high - 1) for column in running]
    some = np.flatnonzero(low)
    before = aggregator.negate([gather(column, low[some] - 1) for column in running])
    rest = aggregator.combine([gather(column, some) for column in found], before)
    return [replaced(column, some, values) for column, values in zip(found, rest, strict=True)]


def any_valid(valid: Mask | None, segments: RowGroups) -> Mask | None:
    """Return which groups have a value at all; None when all have."""
    return None if valid is None else np.asarray(segments.reduce(np.logical_or, valid), dtype=np.bool_)


_BLOCK_BYTES: Final = 1 << 24
"""About so much memory takes what is scanned at a time of accumulators that grow."""


def _block_bounds(columns: list[pa.Array], segments: Segments) -> list[int]:
    """Return where to cut accumulators that are to be scanned, so that each block takes about as much as it should."""
    sizes = np.zeros(segments.total, np.int64)
    for column in columns:
        if pa.types.is_list(column.type):
            lengths = list_lengths(column)
            sizes += lengths * (column.flatten().nbytes // max(int(lengths.sum()), 1))
        else:
            sizes += column.nbytes // max(segments.total, 1)
    merged = np.cumsum(running_sums(sizes, segments))
    cuts = np.searchsorted(merged, np.arange(_BLOCK_BYTES, merged.max(initial=0), _BLOCK_BYTES))
    bounds: list[int] = np.unique(np.concatenate(([0], cuts, [segments.total]))).tolist()
    return bounds


def running_sums(values: Numbers, segments: Segments) -> Numbers:
    """The sum of each value and all before it in its group; that of all values together has to be exact."""
    sums = np.cumsum(values)
    starts = segments.starts
    if len(starts) > 1:
        sums -= np.repeat(sums[starts] - values[starts], segments.counts)
    return sums


def either_valid(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return where one of two columns has a value; None where that is everywhere."""
    return None if one is None or other is None else one | other


def filled(array: pa.Array, dtype: Any) -> tuple[npt.NDArray[Any], Mask | None]:
    """The values as numbers of one type, zero in place of nulls."""
    valid = validity(array)
    values = fixed_width(array)
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0))
    return values.astype(dtype, copy=False), valid


Emit = Callable[[Sequence[pa.Array]], pa.Array]
"""From the results of aggregators to one column."""

Running = Callable[[list[pa.Array], Segments], pa.Array]
"""From the accumulators of an aggregator, group after group, to one column."""


def only_result(results: Sequence[pa.Array]) -> pa.Array:
    """The result of the first aggregator, as it is."""
    return results[0]


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregate over an input whose columns are known.

    Attributes:
        name: the name of the output column.
        type: the type of the output column.
        aggregators: what has to be remembered for it.
        emit: the output column, from the results of the aggregators; a function that can be pickled.
        is_ordered: whether the result depends on the order in which records come.
        running: the output column of each accumulator of the only aggregator, merged with all before it in its group;
            None where these have to be merged for it.
    """

    name: str
    type: TypeInformation
    aggregators: tuple[Aggregator, ...]
    emit: Emit = only_result
    is_ordered: bool = False
    running: Running | None = None


@dataclass(frozen=True)
class AggregatorList:
    """The accumulators of a key and window; each aggregator owns some of the columns.

    Attributes:
        aggregators: the aggregators in the order of their columns, all different.
    """

    aggregators: tuple[Aggregator, ...]

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        """The columns of the accumulators of each group of rows."""
        return [column for aggregator in self.aggregators for column in aggregator.accumulate(rows)]

    def retract(self, rows: GroupedRows) -> list[pa.Array]:
        """The columns of accumulators that take each group of rows away from those they are merged with."""
        return [column for aggregator in self.aggregators for column in aggregator.retract(rows)]

    def merge(self, columns: Sequence[pa.Array], segments: RowGroups) -> list[pa.Array]:
        """The columns of each group of accumulators; they lie group after group, or anywhere if all are scatterable."""
        pairs = zip(self.aggregators, self._split(columns), strict=True)
        return [column for aggregator, own in pairs for column in aggregator.merge(own, cast("Segments", segments))]

    def combine(self, older: Sequence[pa.Array], newer: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of two tables row by row, of which both have all groups, in the same order."""
        parts = zip(self.aggregators, self._split(older), self._split(newer), strict=True)
        return [column for aggregator, a, b in parts for column in aggregator.combine(a, b)]

    def scan(self, columns: Sequence[pa.Array], segments: Segments) -> list[pa.Array]:
        """Each row merged with all rows before it in its group."""
        pairs = zip(self.aggregators, self._split(columns), strict=True)
        return [column for aggregator, own in pairs for column in aggregator.scan(own, segments)]

    def settle(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of accumulators of all records of a key, without what does not matter to later ones."""
        pairs = zip(self.aggregators, self._split(columns), strict=True)
        return [column for aggregator, own in pairs for column in aggregator.settle(own)]

    def negate(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of accumulators that take away what these add, once they are merged."""
        pairs = zip(self.aggregators, self._split(columns), strict=True)
        return [column for aggregator, own in pairs for column in aggregator.negate(own)]

    def are_reversible(self, columns: Sequence[pa.Array]) -> bool:
        """Return whether nothing of these remains where they are merged and later their opposites are."""
        pairs = zip(self.aggregators, self._split(columns), strict=True)
        return all(aggregator.is_reversible(own) for aggregator, own in pairs)

    def results(
        self, columns: Sequence[pa.Array], wanted: Sequence[Aggregator] | None = None
    ) -> dict[Aggregator, pa.Array]:
        """The value of each aggregator, or of some."""
        own = dict(zip(self.aggregators, self._split(columns), strict=True))
        return {each: each.result(own[each]) for each in (own if wanted is None else wanted)}

    def running_results(
        self, wanted: Iterable[Aggregator], columns: Sequence[pa.Array], segments: Segments
    ) -> dict[Aggregator, pa.Array]:
        """The value of some aggregators, of each accumulator merged with all before it in its group."""
        own = dict(zip(self.aggregators, self._split(columns), strict=True))
        return {aggregator: aggregator.running_results(own[aggregator], segments) for aggregator in wanted}

    def running_values(
        self, aggregates: Sequence[BoundAggregate], columns: Sequence[pa.Array], segments: Segments
    ) -> list[pa.Array]:
        """The column of each aggregate, of each accumulator merged with all before it in its group."""
        own = dict(zip(self.aggregators, self._split(columns), strict=True))
        scanned = dict.fromkeys(one for each in aggregates if each.running is None for one in each.aggregators)
        results = self.running_results(scanned, columns, segments)
        return [
            each.emit([results[one] for one in each.aggregators])
            if each.running is None
            else each.running(own[each.aggregators[0]], segments)
            for each in aggregates
        ]

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of the aggregators, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(map(attrgetter("inputs"), self.aggregators))))

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The callers of user functions among the aggregators."""
        return tuple(chain.from_iterable(map(attrgetter("user_code"), self.aggregators)))

    @property
    def need_state(self) -> bool:
        """Return whether only an operator with the state of groups can make accumulators."""
        return any(isinstance(source, DerivedColumn) and source.needs_state for source in self.inputs)

    @cached_property
    def are_scatterable(self) -> bool:
        """Return whether all of them are: see :class:`Aggregator`."""
        return all(map(attrgetter("is_scatterable"), self.aggregators))

    def to_json(self) -> list[dict[str, Any]]:
        """All that is needed to merge accumulators without the program that made them."""
        return [
            {"kind": aggregator.stored_name} | {name: getattr(aggregator, name) for name in aggregator.parameters}
            for aggregator in self.aggregators
        ]

    @staticmethod
    def for_merging(described: Sequence[dict[str, Any]]) -> "AggregatorList":
        """Aggregators that merge as those described do; columns and types of the input are not known any more."""
        return AggregatorList(tuple(_for_merging(dict(entry)) for entry in described))

    def _split(self, columns: Sequence[pa.Array]) -> list[list[pa.Array]]:
        return [list(columns[start:stop]) for start, stop in self.bounds]

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """Return where the columns of each aggregator begin and end."""
        return list(pairwise([0, *accumulate(map(len, map(attrgetter("fields"), self.aggregators)))]))


def _for_merging(entry: dict[str, Any]) -> Aggregator:
    kind = _KINDS[entry.pop("kind")]
    unknown: dict[str, Any] = {"column": -1, "by": -1} | dict.fromkeys(("type", "by_type"), Types.PICKLED_BYTE_ARRAY())
    return kind(**entry, **{name: value for name, value in unknown.items() if name in kind.__dataclass_fields__})


_FIELD: Final = re.compile(r"""col\("([^"]+)"\)""")
"""A field in the text of an expression."""


def with_new_names(described: Sequence[dict[str, Any]], renamed: RenamedFields) -> list[dict[str, Any]]:
    """The description of stored aggregators, as it would be with the names that fields have now."""
    return [
        {**each, "name": _renamed(each["name"], renamed.names)} if "name" in each else dict(each) for each in described
    ]


def renamed_columns(aggregators: AggregatorList, renamed: RenamedFields) -> RenamedFields:
    """Return which columns of accumulators were called otherwise, as their fields were."""
    if not renamed:
        return NOTHING_RENAMED
    before = {new: old for old, new in renamed.names.items()}
    columns: dict[str, str] = {}
    named: Iterator[Any] = (each for each in aggregators.aggregators if hasattr(each, "name"))
    for aggregator in named:
        former = replace(aggregator, name=_renamed(aggregator.name, before))
        columns |= {old: new for (old, _), (new, _) in zip(former.fields, aggregator.fields, strict=True)}
    return RenamedFields({old: new for old, new in columns.items() if old != new})


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """The name of what an aggregator looks at: that of a field, two fields, or the text of an expression."""
    if BY in name:
        return BY.join(_renamed(each, names) for each in name.split(BY))
    return names.get(name) or _FIELD.sub(lambda found: f'col("{names.get(found[1], found[1])}")', name)
