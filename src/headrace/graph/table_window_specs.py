"""Specs of windows over rows that have their time, or their window, in a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.types import type_of_logical
from headrace.graph.changelog_specs import ChangelogSpec, codec_of
from headrace.graph.specs import InputSchema, OperatorParameters, OperatorSpec, OutputSchema
from headrace.graph.window_specs import ColumnarWindowSpec, layout_over
from headrace.operators.base import KeyedOperator, Operator
from headrace.operators.changelog.order import RankRange, SortField
from headrace.windowing.intervals import AlignedWindows, GivenWindows, GrowingWindows, RegularWindows

if TYPE_CHECKING:
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
    from headrace.operators.window.table.firing_order import TimerFiringOrder
    from headrace.operators.window.table.local_time import WindowTime

WINDOW_NAMES = ("window_start", "window_end", "window_time")

_CLOCK = AtomicType(TypeRoot.TIMESTAMP, 3)


def with_windows(
    types: Sequence[TypeInformation], names: Sequence[str], window_names: Sequence[str], time: LogicalType
) -> TypeInformation:
    """A row type with the columns of a window appended: start, end, and window time, of the time's type."""
    added = [type_of_logical(_CLOCK)] * 2 + [type_of_logical(time.as_nullable())]
    return RowTypeInfo((*types, *added), (*names, *window_names))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTableFunctionSpec(OperatorSpec):
    """Each row with each of its windows.

    Attributes:
        windows: the windows.
        time_field: the position of the column of times.
        time_type: its type.
        zone: the time zone by whose clock windows begin; None where times are those of the clock already.
        names: the names of the columns of the window.
    """

    kind: ClassVar[str] = "WindowTableFunction"
    ignores_event_time: ClassVar[bool] = True
    windows: RegularWindows
    time_field: int
    time_type: LogicalType
    zone: str | None = None
    names: tuple[str, ...] = WINDOW_NAMES

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        records = inputs[0].record_type
        type_ = with_windows(records.field_types, records.field_names, self.names, self.time_type)
        return OutputSchema(type_, has_changes=inputs[0].has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.table.local_time import LocalTime
        from headrace.operators.window.table.table_function import WindowTableFunctionOperator

        name, clock = parameters.inputs[0].record_type.field_names[self.time_field], LocalTime(self.zone)
        return WindowTableFunctionOperator(
            self.windows,
            self.time_field,
            name,
            clock,
            parameters.output_type,
            is_batch=parameters.task.is_batch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWindowSpec(ColumnarWindowSpec):
    """Aggregates over windows whose time, or end, is in a column.

    Attributes:
        time_field: the position of the column of times, or of ends of windows; None for processing time.
        time_type: the type of the last moment of a window.
        is_end: whether the column says the end of the row's window.
        zone: the time zone by whose clock windows begin; None where times are those of the clock already.
        retracts: whether records may be retracted.
        has_two_phases: whether senders pre-aggregate records where they can.
        is_columnar: whether windows are computed column by column; else the trigger is called for each record.
        names: the names of the columns of the window.
        timers_wait: whether windows have timers only once a slice of theirs has ended, as window table functions do in
            Flink; else from their first record on.
    """

    time_field: int | None
    time_type: LogicalType
    is_end: bool = False
    zone: str | None = None
    retracts: bool = False
    has_two_phases: bool = False
    is_columnar: bool = True
    names: tuple[str, ...] = WINDOW_NAMES
    timers_wait: bool = True

    @property
    def regular_windows(self) -> RegularWindows | None:
        if not self.has_two_phases or self.retracts or self.time_field is None or not self.is_columnar:
            return None
        return self.windows if isinstance(self.windows, RegularWindows) else None

    def new_layout(self, records: InputSchema) -> ColumnarWindowLayout:
        return layout_over(records, self.aggregates, ("$window_start", "$window_end"), retracts=self.retracts)

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "" if self.retracts else "what a window has taken in is not taken out again"

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        layout = self.layout(inputs[0])
        inner, keys = layout.output_type, len(layout.key_names)
        types = (*inner.field_types[:keys], *inner.field_types[keys + 2 :])
        names = (*inner.field_names[:keys], *inner.field_names[keys + 2 :])
        return self.windowed(with_windows(types, names, self.names, self.time_type), inputs)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.table.aggregate import TableWindowOperator

        layout = self.operator_layout(parameters)
        inner = self._inner(parameters, layout)
        order = self._firing_order(parameters.inputs[0], len(layout.key_names))
        time, keys = self._time(parameters), len(layout.key_names)
        return TableWindowOperator(inner, time, keys, parameters.output_type, order)

    def create_local_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.columnar.local_aggregate import LocalWindowAggregateOperator
        from headrace.operators.window.table.firing_order import MOST_TIMERS

        layout, windows = self.operator_layout(parameters), self.regular_windows
        assert windows is not None
        is_followed = self._firing_order(parameters.inputs[0], len(layout.key_names)) is not None
        fewest = MOST_TIMERS if is_followed else 0
        return LocalWindowAggregateOperator(layout, windows, self._time(parameters), fewest_groups=fewest)

    def _time(self, parameters: OperatorParameters) -> WindowTime:
        from headrace.operators.window.table.local_time import LocalTime, WindowTime

        field = self.time_field
        name = "" if field is None else parameters.inputs[0].record_type.field_names[field]
        return WindowTime(field, name, self.is_end, LocalTime(self.zone), parameters.task.is_batch)

    def _inner(self, parameters: OperatorParameters, layout: ColumnarWindowLayout) -> KeyedOperator:
        """The operator for windows over timestamps."""
        if self.is_columnar:
            from headrace.operators.window.columnar.columnar_operator import columnar_operator

            return columnar_operator(layout, self.definition, self.windows, self.interval)
        from headrace.operators.window.general.aggregating_operator import AggregatingWindowOperator

        records = self.element_type(parameters.inputs)
        return AggregatingWindowOperator(self.definition, records, layout, {}, is_batch=parameters.task.is_batch)

    def _firing_order(self, records: InputSchema, keys: int) -> TimerFiringOrder | None:
        from headrace.operators.window.table.firing_order import TimerFiringOrder, TimersOfWindows

        windows = self.windows
        base = windows.windows if isinstance(windows, GivenWindows) else windows
        if (
            self.time_field is None
            or not keys  # windows of one key that end together are one window
            or not self.is_columnar
            or not isinstance(windows, RegularWindows)
            or not isinstance(base, AlignedWindows | GrowingWindows)
        ):
            return None
        step, size = (base.slide, base.size) if isinstance(base, AlignedWindows) else (base.step, 0)
        waits = self.timers_wait
        timers = TimersOfWindows(windows, step, base.offset + size, waits, are_cleaned_up=not waits)
        return TimerFiringOrder(timers, codec_of(records), keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRankSpec(ChangelogSpec):
    """The first rows of each window and key in an order, once the window has ended.

    Attributes:
        end_field: the position of the column with the end of each row's window.
        order: what rows are ordered by.
        ranks: which ranks are emitted.
        zone: the time zone by whose clock windows end; None where times are those of the clock already.
        last_of_equal: whether of rows that tie the one that came last is first.
        rank_name: the name of the column of ranks.
    """

    kind: ClassVar[str] = "WindowRank"
    end_field: int
    order: tuple[SortField, ...]
    ranks: RankRange
    zone: str | None = None
    last_of_equal: bool = False
    rank_name: str = "w0$o0"

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        type_ = inputs[0].record_type
        if self.ranks.shows_rank:
            type_ = RowTypeInfo((*type_.field_types, Types.LONG()), (*type_.field_names, self.rank_name))
        return OutputSchema(type_)

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "ranks of a window that has ended are not taken back"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.table.local_time import LocalTime
        from headrace.operators.window.table.rank import WindowOrder, WindowRankOperator

        schema = parameters.inputs[0]
        return WindowRankOperator(
            schema.record_type,
            parameters.output_type,
            codec_of(schema),
            end_field=self.end_field,
            clock=LocalTime(self.zone),
            order=WindowOrder(self.order, self.last_of_equal),
            ranks=self.ranks,
        )
