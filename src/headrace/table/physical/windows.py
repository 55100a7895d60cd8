"""Physical nodes for windows: the window table-valued functions, aggregates over windows, and their first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.datastream.window import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from headrace.graph.table_window_specs import TableWindowSpec, WindowRankSpec, WindowTableFunctionSpec
from headrace.operators.changelog.rank import RankRange
from headrace.table.logical import relations as logical
from headrace.table.logical.relations import WindowKind
from headrace.table.logical.scalars import AggregateCall, InputRef, Scalar, SortKey
from headrace.table.logical.schema import Field, Schema, TimeAttribute
from headrace.table.physical.aggregates import call_text, operation
from headrace.table.physical.basic import Calc, Exchange, Expand
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never, with_before
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.errors import PlanningError
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text, unique_names
from headrace.table.physical.translation import GraphBuilder, by_key, sort_fields
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.intervals import AlignedWindows, ColumnarWindows, GivenWindows, GrowingWindows, SessionGap
from headrace.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger

_CLOCK: Final = AtomicType(TypeRoot.TIMESTAMP, 3, nullable=False)


@dataclass(frozen=True, slots=True)
class Window:
    """Windows of one kind and size.

    Attributes:
        kind: their kind.
        size: their length in milliseconds; the largest one of ``CUMULATE``, the gap of ``SESSION``.
        step: the slide of ``HOP``, the step of ``CUMULATE``.
        offset: by how much their starts are shifted.
        time_type: the type of the time that rows are assigned by.
        is_of_clock: whether that is processing time.
    """

    kind: WindowKind
    size: int
    step: int | None
    offset: int
    time_type: LogicalType
    is_of_clock: bool = False

    @property
    def is_session(self) -> bool:
        """Return whether they follow from more than the time of a row."""
        return self.kind is WindowKind.SESSION

    @property
    def step_or_size(self) -> int:
        """How far apart their starts, or their ends, are."""
        return self.size if self.step is None else self.step

    @property
    def windows(self) -> AlignedWindows | GrowingWindows:
        """The windows as arithmetic, of those that are no sessions."""
        if self.kind is WindowKind.CUMULATE:
            return GrowingWindows(self.size, self.step_or_size, self.offset % self.size)
        step = self.step_or_size
        return AlignedWindows(self.size, step, self.offset % step)

    @property
    def columnar(self) -> ColumnarWindows:
        """The same as operators of aggregates take them."""
        return SessionGap(self.size) if self.is_session else self.windows

    @property
    def definition(self) -> WindowDefinition:
        """The same as a program declares them."""
        assigner: Any
        if self.is_of_clock:
            return WindowDefinition(TumblingProcessingTimeWindows.of(self.size), ProcessingTimeTrigger())
        if self.is_session:
            assigner = EventTimeSessionWindows.with_gap(self.size)
        elif self.kind is WindowKind.HOP:
            assigner = SlidingEventTimeWindows.of(self.size, self.step_or_size)
        elif self.kind is WindowKind.CUMULATE:
            assigner = CumulatingEventTimeWindows.of(self.size, self.step_or_size)
        else:
            assigner = TumblingEventTimeWindows.of(self.size)
        return WindowDefinition(assigner, EventTimeTrigger())

    def zone(self, builder: GraphBuilder) -> str | None:
        """The time zone by whose clock they begin; None where the times are those of the clock."""
        is_local = isinstance(self.time_type, AtomicType) and self.time_type.root is TypeRoot.TIMESTAMP_LTZ
        return builder.settings.get_string("table.local-time-zone", "UTC") if is_local else None

    def text(self, place: str, keys: str = "") -> str:
        """The windows as plans show them; ``place`` says where the window, or the time, of a row is found."""
        sizes = {
            WindowKind.TUMBLE: f"size=[{duration_text(self.size)}]",
            WindowKind.HOP: f"size=[{duration_text(self.size)}], slide=[{duration_text(self.step_or_size)}]",
            WindowKind.CUMULATE: f"max_size=[{duration_text(self.size)}], step=[{duration_text(self.step_or_size)}]",
            WindowKind.SESSION: f"gap=[{duration_text(self.size)}]{keys}",
        }
        shift = f", offset=[{duration_text(self.offset)}]" if self.offset else ""
        return f"{self.kind.value}({place}, {sizes[self.kind]}{shift})"


_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def duration_text(millis: int) -> str:
    """A duration as plans show it: in the largest unit that it is whole in."""
    for size, unit in _UNITS:
        if millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """Which columns of a node say the window of each row.

    Attributes:
        window: the windows.
        start: the column with the start; None where it is not there.
        end: that with the end.
        time: that with the last moment.
    """

    window: Window
    start: int | None
    end: int | None
    time: int | None

    def through(self, places: dict[int, int]) -> WindowColumns:
        """The same in a node above, given where its columns are there."""
        return WindowColumns(self.window, *(None if at is None else places.get(at) for at in self._all))

    @property
    def _all(self) -> tuple[int | None, int | None, int | None]:
        return self.start, self.end, self.time

    @property
    def places(self) -> set[int]:
        """The columns."""
        return {at for at in self._all if at is not None}


def window_columns(node: PhysicalNode) -> WindowColumns | None:
    """Which columns of a node say the window of each row; None where nothing does."""
    found = getattr(node, "windowing", None)
    if isinstance(found, WindowColumns):
        return found
    if isinstance(node, Calc):
        below = window_columns(node.input)
        if below is None:
            return None
        places = {
            each.index: at for at, each in reversed(list(enumerate(node.expressions))) if isinstance(each, InputRef)
        }
        return below.through(places)
    if isinstance(node, Exchange | Expand):
        return window_columns(node.input)
    return None


@dataclass(frozen=True)
class WindowTableFunction(PhysicalNode):
    """Each row with each of its windows, in three columns behind."""

    name: ClassVar[str] = "WindowTableFunction"
    input: PhysicalNode
    window: Window
    time_column: int
    columns: tuple[Field, ...]
    partition_by: tuple[int, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        names = unique_names((*given.names, *(field.name for field in self.columns)))
        return Schema((*given, *self.columns)).renamed(names)

    @property
    def windowing(self) -> WindowColumns:
        """Which columns say the window."""
        width = len(self.input.schema)
        return WindowColumns(self.window, width, width + 1, width + 2)

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        keys = names_text([names[index] for index in self.partition_by])
        yield (
            "window",
            self.window.text(f"time_col=[{names[self.time_column]}]", f", partition keys=[{keys}]" if keys else ""),
        )

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        if self.window.is_session:
            raise PlanningError("the rows of SESSION windows cannot be shown yet: aggregate them by window and keys")
        if self.window.is_of_clock:
            raise PlanningError("rows with windows of processing time cannot be shown yet: aggregate them by window")
        spec = WindowTableFunctionSpec(
            windows=self.window.windows,
            time_field=self.time_column,
            time_type=self.columns[2].type,
            zone=self.window.zone(builder),
            names=self.schema.names[-3:],
        )
        return builder.add(spec, self.name, *inputs)


@dataclass(frozen=True)
class WindowAggregate(PhysicalNode):
    """Aggregates of the rows of each window and group, once the window has ended.

    Attributes:
        group: the columns that rows are grouped by beside their window.
        time_column: the column of times, or of ends of windows.
        is_attached: whether it is that of ends.
        shows_time: whether plans show the row time of windows, which is there in any case.
    """

    name: ClassVar[str] = "WindowAggregate"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, needs=with_before)
    input: PhysicalNode
    window: Window
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    time_column: int
    is_attached: bool
    columns: tuple[Field, ...]
    shows_time: bool = True

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        fields = [given[index] for index in self.group] + [Field("", call.type) for call in self.calls]
        names = unique_names((*self.names, *(field.name for field in self.columns)))
        return Schema((*fields, *self.columns)).renamed(names)

    @property
    def windowing(self) -> WindowColumns:
        """Which columns say the window."""
        width = len(self.group) + len(self.calls)
        return WindowColumns(self.window, width, width + 1, width + 2)

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        if self.group:
            yield "groupBy", names_text([names[index] for index in self.group])
        place = f"{'win_end' if self.is_attached else 'time_col'}=[{names[self.time_column]}]"
        keys = f", partition keys=[{names_text([names[index] for index in self.group])}]"
        yield "window", self.window.text(place, keys)
        calls = zip(self.calls, self.names[len(self.group) :], strict=True)
        shown = [f"{call_text(call, names, retracts=False)} AS {name}" for call, name in calls]
        parts = (
            f"{part}('w$) AS {field.name}"
            for part, field in zip(("start", "end", "rowtime"), self.columns, strict=True)
            if self.shows_time or part != "rowtime"
        )
        yield "select", names_text([*(names[index] for index in self.group), *shown, *parts])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given, width = self.input.schema, len(self.group)
        names = self.schema.names
        windows: ColumnarWindows = self.window.columnar
        if self.is_attached:
            windows = GivenWindows(self.window.windows)
        spec = TableWindowSpec(
            self.window.definition,
            tuple(
                operation(c, name, self.input)
                for c, name in zip(self.calls, names[width : width + len(self.calls)], strict=True)
            ),
            windows=windows,
            time_field=None if self.window.is_of_clock else self.time_column,
            time_type=self.columns[2].type,
            is_end=self.is_attached,
            zone=self.window.zone(builder),
            retracts=not self.input.mode.is_insert_only,
            names=names[-3:],
        )
        return builder.add(spec, self.name, by_key(inputs[0], given, self.group))


@dataclass(frozen=True)
class WindowRank(PhysicalNode):
    """The first rows of each window and group in an order, once the window has ended."""

    name: ClassVar[str] = "WindowRank"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    input: PhysicalNode
    windowing: WindowColumns
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    start: int
    end: int
    rank: Field | None

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        if self.rank is None:
            return given
        return Schema((*given, self.rank)).renamed(unique_names((*given.names, self.rank.name)))

    @property
    def is_deduplicate(self) -> bool:
        """Whether it keeps the first or the last row in event time."""
        one = (self.start, self.end) == (1, 1) and len(self.order_by) == 1
        return one and self.input.schema[self.order_by[0].index].time is TimeAttribute.ROWTIME

    def terms(self, text: ScalarText) -> Terms:
        names, columns = self.input.schema.names, self.windowing
        assert columns.start is not None
        assert columns.end is not None
        yield "window", columns.window.text(f"win_start=[{names[columns.start]}], win_end=[{names[columns.end]}]")
        keys = names_text([names[index] for index in self.partition_by])
        order = names_text([f"{names[key.index]} {'DESC' if key.descending else 'ASC'}" for key in self.order_by])
        yield "rankType", "ROW_NUMBER"
        yield "rankRange", f"rankStart={self.start}, rankEnd={self.end}"
        yield "partitionBy", keys
        yield "orderBy", order
        yield "select", names_text(self.schema.names)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        assert self.windowing.end is not None
        spec = WindowRankSpec(
            end_field=self.windowing.end,
            order=sort_fields(self.order_by),
            ranks=RankRange(self.start, self.end, shows_rank=self.rank is not None),
            zone=self.windowing.window.zone(builder),
            last_of_equal=self.is_deduplicate and self.order_by[0].descending,
            rank_name=self.schema.names[-1],
        )
        return builder.add(spec, self.name, by_key(inputs[0], self.input.schema, self.partition_by))


# --- conversions -----------------------------------------------------------------------------------------------------


@conversion_rule(logical.WindowTableFunction)
def _window_function(function: logical.WindowTableFunction, context: ConversionContext) -> PhysicalNode:
    if function.kind is WindowKind.SESSION and context.is_batch:
        raise PlanningError("Unaligned windows like session are not supported in batch mode yet.")
    source = converted(function.input, context)
    time = source.schema[function.time_column]
    is_of_clock = time.time is TimeAttribute.PROCTIME
    if is_of_clock and function.kind is WindowKind.SESSION:
        raise PlanningError("SESSION windows of processing time cannot be executed yet")
    window = Window(function.kind, function.size, function.step, function.offset, time.type, is_of_clock)
    return WindowTableFunction(source, window, function.time_column, function.window_columns, function.partition_by)


def window_aggregate(
    source: PhysicalNode, group: tuple[int, ...], calls: tuple[AggregateCall, ...], names: tuple[str, ...]
) -> PhysicalNode | None:
    """The plan of an aggregate that groups rows by their window, too; None for one that does not.

    Args:
        source: the rows.
        group: the columns that rows are grouped by.
        calls: the aggregates.
        names: the names of the columns of the result.
    """
    columns = window_columns(source)
    if columns is None or columns.start not in group or columns.end not in group:
        return None
    window = columns.window
    if window.kind is WindowKind.HOP and window.size % window.step_or_size:
        raise PlanningError(
            "HOP table function based aggregate requires size must be an integral multiple of slide, but got size "
            f"{window.size} ms and slide {window.step_or_size} ms"
        )
    keys = tuple(index for index in group if index not in columns.places)
    function = _function_below(source)
    key_names = tuple(source.schema.names[index] for index in keys)
    call_names = names[len(group) :]
    if function is not None and not _looks_at_window(source, function, calls):
        below, places, time = _without_function(source, function)
        node = WindowAggregate(
            Exchange(below, tuple(places[index] for index in keys)),
            window,
            tuple(places[index] for index in keys),
            tuple(_moved(call, places) for call in calls),
            (*key_names, *call_names),
            time,
            False,
            function.columns,
            columns.time in group,
        )
    elif window.is_session:
        raise PlanningError("SESSION windows are aggregated by their keys and their window alone")
    else:
        assert columns.end is not None
        node = WindowAggregate(
            Exchange(source, keys),
            window,
            keys,
            calls,
            (*key_names, *call_names),
            columns.end,
            True,
            _fields(source, columns),
        )
    return _in_order(node, source, group, keys, calls, names, columns)


def _fields(source: PhysicalNode, columns: WindowColumns) -> tuple[Field, ...]:
    """The columns of the window that an aggregate over windows that are there gives."""
    time_type = replace(columns.window.time_type, nullable=False)
    kept = [None if at is None else source.schema[at] for at in (columns.start, columns.end, columns.time)]
    defaults = (
        Field("window_start", _CLOCK),
        Field("window_end", _CLOCK),
        Field("window_time", time_type, TimeAttribute.ROWTIME),
    )
    return tuple(found or default for found, default in zip(kept, defaults, strict=True))


def _function_below(node: PhysicalNode) -> WindowTableFunction | None:
    while isinstance(node, Calc | Exchange):
        node = node.input
    return node if isinstance(node, WindowTableFunction) else None


def _looks_at_window(source: PhysicalNode, function: WindowTableFunction, calls: Sequence[AggregateCall]) -> bool:
    """Whether anything but the grouping looks at the columns of the window."""
    columns = window_columns(source)
    assert columns is not None
    used = {index for call in calls for index in (*call.operands, call.filter) if index is not None}
    if used & columns.places:
        return True
    while isinstance(source, Calc | Exchange):
        if isinstance(source, Calc):
            below = window_columns(source.input)
            assert below is not None
            computed = [each for each in source.expressions if not isinstance(each, InputRef)]
            if source.condition is not None:
                computed.append(source.condition)
            if any(
                node.index in below.places for each in computed for node in each.walk() if isinstance(node, InputRef)
            ):
                return True
        source = source.input
    return source is not function


def _without_function(source: PhysicalNode, function: WindowTableFunction) -> tuple[PhysicalNode, dict[int, int], int]:
    """The rows before they had windows, where columns are there now, and where their time is."""
    if isinstance(source, WindowTableFunction):
        return function.input, {index: index for index in range(len(function.input.schema))}, function.time_column
    assert isinstance(source, Calc | Exchange)
    below, places, time = _without_function(source.input, function)
    if isinstance(source, Exchange):
        return below, places, time
    columns = window_columns(source)
    assert columns is not None
    kept = [index for index in range(len(source.expressions)) if index not in columns.places]
    expressions = [_over(source.expressions[index], places) for index in kept]
    names = [source.names[index] for index in kept]
    field = below.schema[time]
    found = next((at for at, each in enumerate(expressions) if isinstance(each, InputRef) and each.index == time), None)
    if found is None:
        found = len(expressions)
        expressions.append(InputRef(time, type=field.type, time=field.time))
        names.append(field.name)
    condition = None if source.condition is None else _over(source.condition, places)
    calc = Calc(below, tuple(expressions), unique_names(names), condition)
    return (calc.input if calc.is_identity else calc), {index: at for at, index in enumerate(kept)}, found


def _over(scalar: Scalar, places: dict[int, int]) -> Scalar:
    return scalar.transform(
        lambda node: replace(node, index=places[node.index]) if isinstance(node, InputRef) else node
    )


def _moved(call: AggregateCall, places: dict[int, int]) -> AggregateCall:
    chosen = None if call.filter is None else places[call.filter]
    return replace(call, operands=tuple(places[index] for index in call.operands), filter=chosen)


def _in_order(
    node: WindowAggregate,
    source: PhysicalNode,
    group: tuple[int, ...],
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    columns: WindowColumns,
) -> PhysicalNode:
    """The columns of the aggregate in their order, of which the node has those of the window behind the others."""
    there = node.windowing
    places = {columns.start: there.start, columns.end: there.end, columns.time: there.time}
    expressions = []
    for index in group:
        at = places[index] if index in columns.places else keys.index(index)
        assert at is not None
        field = node.schema[at]
        expressions.append(InputRef(at, type=source.schema[index].type, time=field.time))
    for at, call in enumerate(calls):
        expressions.append(InputRef(len(keys) + at, type=call.type))
    return Calc(node, tuple(expressions), unique_names(names))


def window_rank(source: PhysicalNode, rank: Any) -> PhysicalNode | None:
    """The plan of a Top-N whose groups are windows, or parts of them; None for one whose groups are not."""
    columns = window_columns(source)
    if columns is None or columns.start not in rank.partition_by or columns.end not in rank.partition_by:
        return None
    if rank.end is None or rank.function != "ROW_NUMBER":
        raise PlanningError("the first rows of windows are found by ROW_NUMBER() and a number")
    keys = tuple(index for index in rank.partition_by if index not in columns.places)
    shown = rank.rank if rank.shows_rank else None
    return WindowRank(Exchange(source, keys), columns, keys, rank.order_by, rank.start, rank.end, shown)
