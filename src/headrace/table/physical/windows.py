"""Windows of rows: their kinds and sizes, the columns that identify the window of a row, and window table functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.datastream.window import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from headrace.graph.table_window_specs import WindowTableFunctionSpec
from headrace.table.logical.relations import WindowKind
from headrace.table.logical.scalars import InputRef
from headrace.table.logical.schema import Field, Schema, unique_names
from headrace.table.options import LOCAL_TIME_ZONE
from headrace.table.physical.basic import Calc, Exchange, Expand
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.intervals import AlignedWindows, ColumnarWindows, GrowingWindows, SessionGap
from headrace.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger

_CLOCK: Final = AtomicType(TypeRoot.TIMESTAMP, 3, nullable=False)


@dataclass(frozen=True, slots=True)
class WindowingStrategy:
    """Windows of one kind and size.

    Attributes:
        kind: their kind.
        size: their length in milliseconds; the largest one of ``CUMULATE``, the gap of ``SESSION``.
        step: the slide of ``HOP``, the step of ``CUMULATE``.
        offset: the offset of their starts.
        time_type: the type of the time attribute.
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
        """Return whether they are sessions, which depend on other rows too."""
        return self.kind is WindowKind.SESSION

    @property
    def step_or_size(self) -> int:
        """The distance between the starts of windows, or for cumulating ones between their ends."""
        return self.size if self.step is None else self.step

    @property
    def windows(self) -> AlignedWindows | GrowingWindows:
        """The windows as arithmetic; not for sessions."""
        if self.kind is WindowKind.CUMULATE:
            return GrowingWindows(self.size, self.step_or_size, self.offset % self.size)
        step = self.step_or_size
        return AlignedWindows(self.size, step, self.offset % step)

    @property
    def columnar(self) -> ColumnarWindows:
        """The windows in the form of aggregate operators."""
        return SessionGap(self.size) if self.is_session else self.windows

    @property
    def is_columnar(self) -> bool:
        """Return whether they are computed column by column."""
        return not (self.is_session and self.is_of_clock)

    @property
    def definition(self) -> WindowDefinition:
        """The windows in the form of the DataStream API."""
        assigner: Any
        if self.is_of_clock:
            assigner = ProcessingTimeSessionWindows if self.is_session else TumblingProcessingTimeWindows
            windows = assigner.with_gap(self.size) if self.is_session else assigner.of(self.size)
            return WindowDefinition(windows, ProcessingTimeTrigger())
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
        """The time zone in which they start; None where times are local already."""
        is_local = isinstance(self.time_type, AtomicType) and self.time_type.root is TypeRoot.TIMESTAMP_LTZ
        return builder.settings.get(LOCAL_TIME_ZONE) if is_local else None

    def text(self, place: str, keys: str = "") -> str:
        """The windows in the form of plans; ``place`` names the columns of the window or the time."""
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
    """A duration in the form of plans: in the largest unit of which it is a multiple."""
    for size, unit in _UNITS:
        if millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """The columns of a node that hold the window of each row.

    Attributes:
        window: the windows.
        start: the column of window_start; None where it was projected away.
        end: that of window_end.
        time: that of window_time.
        partition_by: the columns by which rows have sessions of their own; None for one that was projected away.
    """

    window: WindowingStrategy
    start: int | None
    end: int | None
    time: int | None
    partition_by: tuple[int | None, ...] = ()

    def text(self, names: Sequence[str]) -> str:
        """The windows in the form of plans, of a node with these columns."""
        assert self.start is not None
        assert self.end is not None
        keys = names_text([names[at] for at in self.partition_by if at is not None])
        place = f"win_start=[{names[self.start]}], win_end=[{names[self.end]}]"
        return self.window.text(place, f", partition keys=[{keys}]" if keys else "")

    def through(self, places: dict[int, int]) -> WindowColumns:
        """The window columns of a node above, given the new positions of columns."""
        start, end, time = (None if at is None else places.get(at) for at in self._all)
        keys = tuple(None if at is None else places.get(at) for at in self.partition_by)
        return WindowColumns(self.window, start, end, time, keys)

    @property
    def _all(self) -> tuple[int | None, int | None, int | None]:
        return self.start, self.end, self.time

    @property
    def places(self) -> set[int]:
        """The columns."""
        return {at for at in self._all if at is not None}


def window_columns(node: PhysicalNode) -> WindowColumns | None:
    """The columns of a node that hold the window of each row; None where there are none."""
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
    """Each row with each of its windows, in three columns appended."""

    name: ClassVar[str] = "WindowTableFunction"
    input: PhysicalNode
    window: WindowingStrategy
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
        """The columns that hold the window."""
        width = len(self.input.schema)
        return WindowColumns(self.window, width, width + 1, width + 2, self.partition_by)

    @property
    def requires_watermark(self) -> bool:
        return not self.window.is_of_clock

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        keys = names_text([names[index] for index in self.partition_by])
        yield (
            "window",
            self.window.text(f"time_col=[{names[self.time_column]}]", f", partition keys=[{keys}]" if keys else ""),
        )

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        spec = WindowTableFunctionSpec(
            windows=self.window.windows,
            time_field=self.time_column,
            time_type=self.columns[2].type,
            zone=self.window.zone(builder),
            names=self.schema.names[-3:],
        )
        return builder.add(spec, self.name, *inputs)
