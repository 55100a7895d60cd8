"""Window aggregates, in one phase or in two, with windows assigned by a table function below them, or by themselves.

Window functions are here as well, since the rows of a session are an aggregate: an array, which is unnested when it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar, Final

from headrace.common.logical_types import ArrayType, AtomicType, RowType, TypeRoot
from headrace.graph.table_window_specs import TableWindowSpec
from headrace.table.functions.types import BIGINT
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import LogicalWindowTableFunction, WindowKind
from headrace.table.logical.scalars import AggregateCall, Call, InputRef, Scalar, input_refs, moved
from headrace.table.logical.schema import Field, Schema, TimeAttribute, renumbered, unique_names
from headrace.table.physical.aggregates import operations
from headrace.table.physical.basic import Calc, Exchange, Expand
from headrace.table.physical.call_texts import call_text, merging_texts, partial_texts
from headrace.table.physical.changelog_functions import FromChangelog, ToChangelog
from headrace.table.physical.changelog_rules import ChangelogRule, never, with_before
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.correlates import Correlate
from headrace.table.physical.node import Edges, PassingNode, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder, by_key
from headrace.table.physical.windows import WindowColumns, WindowingStrategy, WindowTableFunction, window_columns
from headrace.windowing.intervals import ColumnarWindows, GivenWindows

_CLOCK: Final = AtomicType(TypeRoot.TIMESTAMP, 3, nullable=False)


@dataclass(frozen=True)
class WindowAggregate(PhysicalNode):
    """Aggregates of the rows of each window and group, once the window has ended.

    Attributes:
        group: the columns that rows are grouped by beside their window.
        time_column: the column of times, or of ends of windows.
        is_attached: whether it holds the ends of windows.
        shows_time: whether plans show the rowtime of windows, which is always present.
    """

    name: ClassVar[str] = "WindowAggregate"
    has_two_phases: ClassVar[bool] = False
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, needs=with_before)
    input: PhysicalNode
    window: WindowingStrategy
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
        """The window columns of results."""
        width = len(self.group) + len(self.calls)
        return WindowColumns(self.window, width, width + 1, width + 2, tuple(range(len(self.group))))

    @property
    def requires_watermark(self) -> bool:
        return not self.window.is_of_clock

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        if self.group:
            yield "groupBy", names_text([names[index] for index in self.group])
        yield "window", self.window_text
        shown = [
            (f"{part}('w$)", field.name)
            for part, field in zip(("start", "end", "rowtime"), self.columns, strict=True)
            if self.shows_time or part != "rowtime"
        ]
        texts = [*self.call_texts, *(text for text, _ in shown)]
        labels = [*self.names[len(self.group) :], *(name for _, name in shown)]
        selected = (f"{text} AS {label}" for text, label in zip(texts, labels, strict=False))
        yield "select", names_text([*(names[index] for index in self.group), *selected])

    @property
    def window_text(self) -> str:
        """The window in the form of plans."""
        names = self.input.schema.names
        place = f"{'win_end' if self.is_attached else 'time_col'}=[{names[self.time_column]}]"
        keys = names_text([names[index] for index in self.group])
        return self.window.text(place, f", partition keys=[{keys}]" if keys else "")

    @property
    def call_texts(self) -> list[str]:
        """The aggregates in the form of plans, without names."""
        return [call_text(call, self.input.schema.names, retracts=self.retracts) for call in self.calls]

    @property
    def retracts(self) -> bool:
        """Return whether rows may be retracted."""
        return not self.input.mode.is_insert_only

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given, width = self.input.schema, len(self.group)
        names = self.schema.names
        windows: ColumnarWindows = self.window.columnar
        if self.is_attached:
            windows = GivenWindows(self.window.windows)
        spec = TableWindowSpec(
            self.window.definition,
            operations(self.calls, names[width : width + len(self.calls)], self.input),
            windows=windows,
            time_field=None if self.window.is_of_clock else self.time_column,
            time_type=self.columns[2].type,
            is_end=self.is_attached,
            zone=self.window.zone(builder),
            retracts=self.retracts,
            has_two_phases=self.has_two_phases and not self.retracts,
            is_columnar=self.window.is_columnar,
            names=names[-3:],
        )
        return builder.add(spec, self.name, by_key(inputs[0], given, self.group, names[:width]))


Arranged = Callable[[WindowAggregate, int | None], WindowAggregate]
"""Arranges an aggregate in one phase or in two, given the column of starts of windows."""


def in_one_phase(node: WindowAggregate, _: int | None) -> WindowAggregate:
    """The aggregate in one phase."""
    return node


def window_aggregate(
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    arranged: Arranged = in_one_phase,
) -> PhysicalNode | None:
    """The plan of a window aggregate; None if rows are not grouped by a window.

    Args:
        source: the rows.
        group: the columns that rows are grouped by.
        calls: the aggregates.
        names: the names of the columns of the result.
        arranged: arranges the aggregate in phases.
    """
    columns = window_columns(source)
    if columns is None or columns.start not in group or columns.end not in group:
        return None
    _check_slide(columns.window)
    keys = tuple(index for index in group if index not in columns.places)
    if columns.window.is_session and set(columns.partition_by) != set(keys):
        return None
    called = (*(source.schema.names[index] for index in keys), *renumbered(names[len(group) :], len(keys)))
    function = _function_below(source)
    if function is not None and not _looks_at_window(source, function, calls):
        node = _of_times(source, function, keys, calls, called, shows_time=columns.time in group)
    else:
        node = _of_ends(source, columns, keys, calls, called, shows_time=columns.time in group)
    return _in_order(arranged(node, columns.start), source, group, keys, names, columns)


def _check_slide(window: WindowingStrategy) -> None:
    if window.kind is WindowKind.HOP and window.size % window.step_or_size:
        raise PlanningError(
            "HOP table function based aggregate requires size must be an integral multiple of slide, but got size "
            f"{window.size} ms and slide {window.step_or_size} ms"
        )


def _of_times(
    source: PhysicalNode,
    function: WindowTableFunction,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    *,
    shows_time: bool,
) -> WindowAggregate:
    """The aggregate that assigns windows itself, over the input of the window table function."""
    below, places, time = _without_function(source, function)
    group = tuple(places[index] for index in keys)
    moved_calls = tuple(call.moved(places) for call in calls)
    exchange = Exchange(below, group)
    return WindowAggregate(
        exchange, function.window, group, moved_calls, names, time, False, function.columns, shows_time
    )


def _of_ends(
    source: PhysicalNode,
    columns: WindowColumns,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    *,
    shows_time: bool,
) -> WindowAggregate:
    """The aggregate over windows in columns."""
    if columns.window.is_session:
        raise PlanningError("SESSION windows can only be aggregated by their partition keys and their window")
    assert columns.end is not None
    fields = _fields(source, columns)
    return WindowAggregate(
        Exchange(source, keys), columns.window, keys, calls, names, columns.end, True, fields, shows_time
    )


def _fields(source: PhysicalNode, columns: WindowColumns) -> tuple[Field, ...]:
    """The window columns that an aggregate over windows in columns emits."""
    time_type = replace(columns.window.time_type, nullable=False)
    kept = [None if at is None else source.schema[at] for at in (columns.start, columns.end, columns.time)]
    defaults = (
        Field("window_start", _CLOCK),
        Field("window_end", _CLOCK),
        Field("window_time", time_type, TimeAttribute.ROWTIME),
    )
    return tuple(found or default for found, default in zip(kept, defaults, strict=True))


def _function_below(node: PhysicalNode) -> WindowTableFunction | None:
    while isinstance(node, Calc | Exchange | Expand):
        node = node.input
    return node if isinstance(node, WindowTableFunction) else None


def _looks_at_window(source: PhysicalNode, function: WindowTableFunction, calls: Sequence[AggregateCall]) -> bool:
    """Return whether anything besides the grouping reads the window columns."""
    columns = window_columns(source)
    assert columns is not None
    if any(index in columns.places for call in calls for index in call.columns):
        return True
    while isinstance(source, Calc | Exchange | Expand):
        if isinstance(source, Expand):
            given = window_columns(source.input)
            if given is None or any(place not in row for place in given.places for row in source.projections):
                return True
        if isinstance(source, Calc):
            below = window_columns(source.input)
            assert below is not None
            computed = [each for each in source.expressions if not isinstance(each, InputRef)]
            if source.condition is not None:
                computed.append(source.condition)
            if any(index in below.places for each in computed for index in input_refs(each)):
                return True
        source = source.input
    return source is not function


def _without_function(source: PhysicalNode, function: WindowTableFunction) -> tuple[PhysicalNode, dict[int, int], int]:
    """The input of the window table function, the new positions of columns, and the time column."""
    if isinstance(source, WindowTableFunction):
        below = function.input.input if isinstance(function.input, Exchange) else function.input
        return below, {index: index for index in range(len(below.schema))}, function.time_column
    assert isinstance(source, Calc | Exchange | Expand)
    below, places, time = _without_function(source.input, function)
    if isinstance(source, Exchange):
        return below, places, time
    if isinstance(source, Expand):
        return _expanded_below(source, below, places, time)
    columns = window_columns(source)
    assert columns is not None
    kept = [index for index in range(len(source.expressions)) if index not in columns.places]
    expressions = [moved(source.expressions[index], places) for index in kept]
    names = [source.names[index] for index in kept]
    found = next((at for at, each in enumerate(expressions) if isinstance(each, InputRef) and each.index == time), None)
    if found is None:
        found = len(expressions)
        expressions.append(InputRef.of(below.schema, time))
        names.append(below.schema[time].name)
    condition = None if source.condition is None else moved(source.condition, places)
    calc = Calc(below, tuple(expressions), unique_names(names), condition)
    return (calc.input if calc.is_identity else calc), {index: at for at, index in enumerate(kept)}, found


def _expanded_below(
    expand: Expand, below: PhysicalNode, places: dict[int, int], time: int
) -> tuple[PhysicalNode, dict[int, int], int]:
    """The rows of grouping sets over the input of the window table function, which has the time as a further column."""
    windowing = window_columns(expand.input)
    assert windowing is not None
    kept = [
        at for at in range(len(expand.names) - 1) if not any(row[at] in windowing.places for row in expand.projections)
    ]
    rows = tuple(
        (*(None if (index := row[at]) is None else places[index] for at in kept), time) for row in expand.projections
    )
    names = unique_names([*(expand.names[at] for at in kept), below.schema.names[time], expand.names[-1]])
    moves = {at: now for now, at in enumerate((*kept, None, len(expand.names) - 1)) if at is not None}
    made = Expand(below, rows, expand.numbers, names, shows_last=True)
    return made, moves, len(kept)


def _in_order(
    node: WindowAggregate,
    source: PhysicalNode,
    group: tuple[int, ...],
    keys: tuple[int, ...],
    names: tuple[str, ...],
    columns: WindowColumns,
) -> PhysicalNode:
    """The columns in the logical order; the node has the window columns after the others."""
    there, width = node.windowing, len(keys)
    places: dict[int | None, int | None] = {index: at for at, index in enumerate(keys)}
    places |= {columns.start: there.start, columns.end: there.end, columns.time: there.time}
    expressions: list[Scalar] = []
    for index in group:
        at = places[index]
        assert at is not None
        expressions.append(replace(InputRef.of(node.schema, at), type=source.schema[index].type))
    expressions += InputRef.all_of(node.schema)[width : width + len(node.calls)]
    return Calc(node, tuple(expressions), unique_names(names))


_UNMERGED: Final = frozenset(("FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE", "JSON_ARRAYAGG", "JSON_OBJECTAGG"))
"""Functions whose partial results cannot be merged."""

_COUNT: Final = AggregateCall("COUNT", (), BIGINT.not_null())


@dataclass(frozen=True)
class LocalWindowAggregate(PassingNode):
    """Partial aggregates of the rows of each sender, by window and group.

    It translates to nothing: the planner of the graph decides whether senders pre-aggregate records or send them as
    they are. So its columns are those of its input.

    Attributes:
        start_column: the column of window starts, if windows are in columns.
    """

    name: ClassVar[str] = "LocalWindowAggregate"
    passes_rows: ClassVar[bool] = True
    window: WindowingStrategy
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    time_column: int
    start_column: int | None
    is_attached: bool

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        keys = [names[index] for index in self.group]
        if keys:
            yield "groupBy", names_text(keys)
        start = "" if self.start_column is None else f"win_start=[{names[self.start_column]}], "
        place = (
            f"{start}win_end=[{names[self.time_column]}]"
            if self.is_attached
            else f"time_col=[{names[self.time_column]}]"
        )
        yield "window", self.window.text(place)
        end = "$window_end" if self.is_attached else "$slice_end"
        retracts = not self.input.mode.is_insert_only
        calls = counted(self.calls, self.window, retracts=retracts)
        texts = partial_texts(calls, names, retracts=retracts)
        yield "select", names_text([*keys, *texts, f"slice_end('w$) AS {end}"])


@dataclass(frozen=True)
class GlobalWindowAggregate(WindowAggregate):
    """Aggregates of each window and group, from the accumulators of senders and from rows."""

    name: ClassVar[str] = "GlobalWindowAggregate"
    has_two_phases: ClassVar[bool] = True

    @property
    def window_text(self) -> str:
        return self.window.text("win_end=[$window_end]" if self.is_attached else "slice_end=[$slice_end]")

    @property
    def call_texts(self) -> list[str]:
        return list(merging_texts(counted(self.calls, self.window, retracts=self.retracts), retracts=self.retracts))


def counted(calls: Sequence[AggregateCall], window: WindowingStrategy, *, retracts: bool) -> Sequence[AggregateCall]:
    """The calls, with a count of rows where the global aggregate has to find out whether a window has any left."""
    is_counted = any(call == _COUNT for call in (replace(each, name=None) for each in calls))
    return calls if is_counted or not (retracts or window.kind is WindowKind.HOP) else (*calls, _COUNT)


def in_two_phases(node: WindowAggregate, start_column: int | None) -> WindowAggregate:
    """The aggregate in two phases if its functions can be merged, as in Flink's planner."""
    if node.window.kind is WindowKind.SESSION or node.window.is_of_clock:
        return node
    if any(call.function in _UNMERGED for call in node.calls):
        return node
    assert isinstance(node.input, Exchange)
    start = start_column if node.is_attached else None
    local = LocalWindowAggregate(
        node.input.input, node.window, node.group, node.calls, node.time_column, start, node.is_attached
    )
    exchange = node.input.with_inputs((local,))
    given = {field.name: getattr(node, field.name) for field in fields(node)}
    return GlobalWindowAggregate(**(given | {"input": exchange}))


@dataclass(frozen=True)
class SessionTableFunction(WindowTableFunction):
    """Each row with its session, once that has ended.

    The rows of a session are collected like the values of an aggregate, and unnested when the session ends. Changes are
    collected as they are: a row that is taken back is emitted, and taken back then.
    """

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        if self.input.mode.is_insert_only:
            return builder.translate(self._after_sessions(self.input, 0))
        changes = ToChangelog(self.input, "$kind")
        return builder.translate(FromChangelog(self._after_sessions(changes, 1), 0))

    def _after_sessions(self, source: PhysicalNode, shift: int) -> PhysicalNode:
        """Each row of a source, whose columns stand so many places further right, with the columns of its session."""
        keys = tuple(shift + key for key in self.partition_by)
        return self._unnested(self._collected(source, keys, shift + self.time_column), source.schema, len(keys))

    def _collected(self, source: PhysicalNode, keys: tuple[int, ...], time_column: int) -> WindowAggregate:
        """The rows of each session in an array."""
        given = source.schema
        refs = InputRef.all_of(given)
        row = Call("ROW", refs, type=RowType(given.names, given.types, nullable=False))
        calc = Calc(source, (*refs, row), (*given.names, "$row"))
        rows = AggregateCall("ARRAY_AGG", (len(refs),), ArrayType(row.type))
        names = (*(f"$key{place}" for place in range(len(keys))), "$rows")
        exchange = Exchange(calc, keys)
        return WindowAggregate(exchange, self.window, keys, (rows,), names, time_column, False, self.columns)

    def _unnested(self, collected: WindowAggregate, given: Schema, keys: int) -> PhysicalNode:
        """The rows, with the columns of their session appended."""
        width = len(collected.schema)
        nullable = Schema(tuple(field.as_nullable() for field in given))
        node = Correlate(collected, InputRef.of(collected.schema, keys), nullable)
        places = (*range(width, width + len(given)), *range(keys + 1, keys + 4))
        names = unique_names((*given.names, *self.schema.names[-3:]))
        return Calc(node, tuple(InputRef.of(node.schema, place) for place in places), names)


@conversion_rule(LogicalWindowTableFunction)
def _window_function(function: LogicalWindowTableFunction, context: ConversionContext) -> PhysicalNode:
    is_session = function.kind is WindowKind.SESSION
    if is_session and context.is_batch:
        raise PlanningError("Unaligned windows like session are not supported in batch mode yet.")
    source = converted(function.input, context)
    time = source.schema[function.time_column]
    if time.time is None and not context.is_batch:
        raise PlanningError(
            "The window function requires the timecol is a time attribute type, but is "
            f"{time.type.as_nullable()}: a regular join, DISTINCT and GROUP BY end it, so apply the windows below them"
        )
    is_of_clock = time.time is TimeAttribute.PROCTIME
    window = WindowingStrategy(function.kind, function.size, function.step, function.offset, time.type, is_of_clock)
    kind = SessionTableFunction if is_session else WindowTableFunction
    if is_session:
        source = Exchange(source, function.partition_by)
    return kind(source, window, function.time_column, function.window_columns, function.partition_by)
