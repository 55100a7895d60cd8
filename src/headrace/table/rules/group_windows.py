"""Group window functions (``GROUP BY TUMBLE(...)``) become a relation, with the properties of the window in columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.logical.relations import Filter, LogicalAggregate, LogicalSort, Project, Relation, WindowKind
from headrace.table.logical.scalars import AggregateCall, Call, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema, TimeAttribute

_FUNCTIONS: Final = {f"${kind.value}": kind for kind in (WindowKind.TUMBLE, WindowKind.HOP, WindowKind.SESSION)}
_PARTS: Final = {"START": 0, "END": 1, "ROWTIME": 2, "PROCTIME": 3}
_MILLISECOND: Final = 1000
_CLOCK: Final = AtomicType(TypeRoot.TIMESTAMP, 3, nullable=False)
_MOMENT: Final = AtomicType(TypeRoot.TIMESTAMP_LTZ, 3, nullable=False)


@dataclass(frozen=True)
class LogicalGroupWindowAggregate(Relation):
    """Aggregates of the rows of each window and group: ``GROUP BY TUMBLE(time, size)``.

    The columns are those of the aggregate, in which the window's column has its start, and then the end, the rowtime
    and the proctime of the window.

    Attributes:
        aggregate: the aggregate over the rows, which groups by the time in place of the window.
        kind: the kind of windows.
        window: the position of the window among the grouping columns.
        time_column: the column of the input with the time.
        size: the length of a window, or the gap of a session, in milliseconds.
        step: the slide of ``HOP``.
        problem: the reason why it cannot be planned; empty if it can.
    """

    input: Relation
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    kind: WindowKind
    window: int
    time_column: int
    size: int
    step: int | None
    problem: str = ""

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        columns = [given[index] for index in self.group] + [Field("", call.type) for call in self.calls]
        columns[self.window] = Field("", _CLOCK)
        return Schema((*columns, *self.parts_columns)).renamed((*self.names, "w$end", "w$rowtime", "w$proctime"))

    @property
    def parts_columns(self) -> tuple[Field, ...]:
        """The columns of the window, which follow the others."""
        time = self.input.schema[self.time_column]
        row_time = Field("", time.type.not_null(), TimeAttribute.ROWTIME)
        return Field("", _CLOCK), row_time, Field("", _MOMENT, TimeAttribute.PROCTIME)


def has_group_window(aggregate: LogicalAggregate) -> bool:
    """Return whether rows are grouped by a window."""
    below = aggregate.input
    return isinstance(below, Project) and any(_window_of(below.expressions[index]) for index in aggregate.group)


def with_group_windows(relation: Relation) -> Relation:
    """The relation in which group windows are relations of their own."""
    return relation.transform(_rewritten)


def _rewritten(relation: Relation) -> Relation:
    if isinstance(relation, LogicalAggregate):
        return _windowed(relation)
    if not isinstance(relation, Project | Filter | LogicalSort):
        return relation
    below = relation.input
    while isinstance(below, Filter):
        below = below.input
    if not isinstance(below, LogicalGroupWindowAggregate):
        return relation
    if isinstance(relation, Filter):
        return replace(relation, condition=_with_parts(relation.condition, below))
    if isinstance(relation, Project):
        return replace(relation, expressions=tuple(_with_parts(each, below) for each in relation.expressions))
    return relation


def _windowed(aggregate: LogicalAggregate) -> Relation:
    """The window aggregate; the aggregate itself when it has no window."""
    project = aggregate.input
    if not isinstance(project, Project):
        return aggregate
    found = [(at, index) for at, index in enumerate(aggregate.group) if _window_of(project.expressions[index])]
    if not found:
        return aggregate
    place, index = found[0]
    call = project.expressions[index]
    assert isinstance(call, Call)
    kind = _FUNCTIONS[call.function]
    time, *sizes = call.operands
    lengths = [_millis(size) for size in sizes]
    problem = ""
    if len(found) > 1 or not aggregate.is_simple:
        problem = "rows are grouped by one window: several, and grouping sets with one, are not supported"
    elif len(lengths) > (2 if kind is WindowKind.HOP else 1):
        problem = f"{kind.value} window with alignment is not supported yet."
    elif None in lengths:
        problem = "Only constant window intervals of days, hours, minutes and seconds are supported."
    expressions = (*project.expressions[:index], time, *project.expressions[index + 1 :])
    name = project.input.schema.names[time.index] if isinstance(time, InputRef) else project.names[index]
    others = (*project.names[:index], *project.names[index + 1 :])
    names = project.names if name in others else (*others[:index], name, *others[index:])
    return LogicalGroupWindowAggregate(
        replace(project, expressions=expressions, names=names),
        aggregate.group,
        aggregate.calls,
        aggregate.names,
        kind,
        place,
        index,
        1 if lengths[-1] is None else lengths[-1],
        lengths[0] if kind is WindowKind.HOP else None,
        problem,
    )


def _window_of(scalar: Scalar) -> WindowKind | None:
    return _FUNCTIONS.get(scalar.function) if isinstance(scalar, Call) else None


def _millis(size: Scalar) -> int | None:
    while isinstance(size, Cast):
        size = size.operand
    is_time = isinstance(size, Literal) and not _is_of_months(size.type)
    return int(size.value) // _MILLISECOND if is_time and isinstance(size, Literal) else None


def _is_of_months(kind: LogicalType) -> bool:
    return "MONTH" in str(kind) or "YEAR" in str(kind)


def _with_parts(scalar: Scalar, windows: LogicalGroupWindowAggregate) -> Scalar:
    """The scalar with calls such as ``TUMBLE_END`` replaced by the columns of the window."""
    width = len(windows.group) + len(windows.calls)

    def part_of(node: Scalar) -> Scalar:
        if not isinstance(node, Call) or len(node.operands) != 1:
            return node
        window, _, part = node.function.partition("_")
        if f"${window}" not in _FUNCTIONS or part not in _PARTS:
            return node
        return windows.column(windows.window if part == "START" else width + _PARTS[part] - 1)

    return scalar.transform(part_of)
