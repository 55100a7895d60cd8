"""Physical nodes for ``OVER`` windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from headrace.common.logical_types import IntervalType
from headrace.graph.changelog_specs import OverAggregateSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.changelog.over.functions import OverFrame
from headrace.table.functions.python.aggregates import user_aggregate
from headrace.table.logical.errors import PlanningError, placed
from headrace.table.logical.relations import LogicalOverAggregate, OverFunction
from headrace.table.logical.scalars import (
    BOOLEAN,
    Call,
    Cast,
    Frame,
    FrameBound,
    FrameBoundKind,
    InputRef,
    Literal,
    Scalar,
    SortKey,
    all_of,
)
from headrace.table.logical.schema import Field, Schema, TimeAttribute, unique_names
from headrace.table.physical.aggregates import constant_of
from headrace.table.physical.basic import Calc, Exchange, filtered
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, always, never, with_before
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text, order_text
from headrace.table.physical.translation import GraphBuilder, by_key, sort_fields
from headrace.table.rules.rank import LogicalRank

_WHOLE = frozenset((FrameBoundKind.UNBOUNDED_PRECEDING, FrameBoundKind.UNBOUNDED_FOLLOWING))
_MICROS = 1000


@dataclass(frozen=True)
class OverAggregate(PhysicalNode):
    """Functions over a window of rows, in columns appended to those of the input.

    Attributes:
        frame_text: the frame in the form of plans.
        time: the kind of the time attribute that orders rows; None in batch mode.
    """

    name: ClassVar[str] = "OverAggregate"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    changes: ClassVar[bool] = False
    appends_columns: ClassVar[bool] = True
    input: PhysicalNode
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    frame: OverFrame
    frame_text: str
    calls: tuple[OverFunction, ...]
    names: tuple[str, ...]
    time: TimeAttribute | None

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        added = tuple(Field(name, call.type) for name, call in zip(self.names, self.calls, strict=True))
        return Schema((*given, *added)).renamed(unique_names((*given.names, *self.names)))

    @property
    def requires_watermark(self) -> bool:
        return self.time is TimeAttribute.ROWTIME

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        if self.partition_by:
            yield "partitionBy", names_text([names[index] for index in self.partition_by])
        if self.order_by:
            yield "orderBy", order_text(self.order_by, self.input.schema)
        yield "window", f" {self.frame_text}"
        texts = [call_text(call, name, names) for call, name in zip(self.calls, self.names, strict=True)]
        yield "select", names_text([*names, *texts])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given = self.input.schema
        spec = OverAggregateSpec(
            calls=tuple(
                operation(call, name, self.input)
                for call, name in zip(self.calls, self.schema.names[len(given) :], strict=True)
            ),
            frame=self.frame,
            time_field=self.order_by[0].index if self.time is TimeAttribute.ROWTIME else None,
            order=sort_fields(self.order_by, given),
            changes=self.changes,
            update_before=self.mode.takes_update_before,
            ttl=builder.state_ttl,
        )
        return builder.add(spec, self.name, by_key(inputs[0], given, self.partition_by))


def call_text(call: OverFunction, name: str, names: Sequence[str]) -> str:
    """``SUM(price) AS w0$o0``."""
    operands = names_text([names[index] for index in call.operands]) or "*"
    return f"{call.function}({'DISTINCT ' if call.is_distinct else ''}{operands}) AS {name}"


@dataclass(frozen=True)
class ChangingOverAggregate(OverAggregate):
    """Functions over a window ordered by other columns than time, whose results are updated."""

    changelog: ClassVar[ChangelogRule] = ChangelogRule(always, needs=with_before, adapts=True)
    changes: ClassVar[bool] = True


def operation(call: OverFunction, name: str, given: PhysicalNode) -> AggregateOperation:
    """A function call in the form of the operators, over the columns of a node."""
    known = ((place, constant_of(given, index)) for place, index in enumerate(call.operands))
    return AggregateOperation(
        call.function,
        call.operands,
        call.type,
        name,
        is_distinct=call.is_distinct,
        constants=tuple((place, value) for place, value in known if value is not None),
        options=(("ignores_nulls", call.ignores_nulls),),
        user=user_aggregate(call.options),
    )


@conversion_rule(LogicalOverAggregate)
def _over(over: LogicalOverAggregate, context: ConversionContext) -> PhysicalNode:
    source = converted(over.input, context)
    frame = frame_of(over.frame)
    if context.is_batch:
        return _node(over, source, frame, None)
    if not over.names[0].startswith("w0$"):
        raise placed(
            "Cannot generate a valid execution plan for the given query: functions over different windows in one "
            "SELECT are computed one after the other, in a query over the first ones as a subquery",
            over.at,
        )
    time = _time_of(over, source)
    _check_frame(over)
    if time is None:
        if any(call.function == "LAG" for call in over.calls):
            frame = OverFrame(is_rows=False)  # peers share a frame
        return _node(over, source, frame, None, ChangingOverAggregate)
    if time is TimeAttribute.PROCTIME and frame.low is None:
        frame = OverFrame(is_rows=True)
    elif any(call.function == "LAG" for call in over.calls):
        frame = OverFrame(is_rows=False)  # peers share a frame
    return _node(over, source, frame, time)


def _node(
    over: LogicalOverAggregate,
    source: PhysicalNode,
    frame: OverFrame,
    time: TimeAttribute | None,
    kind: type[OverAggregate] = OverAggregate,
) -> OverAggregate:
    exchange = Exchange(source, over.partition_by)
    text = frame_text(over.frame)
    if any(call.function in _BY_PEERS for call in over.calls):
        text = text.replace("ROWS", "RANGE")
    return kind(exchange, over.partition_by, over.order_by, frame, text, over.calls, over.names, time)


_BY_PEERS: Final = frozenset(("RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK", "NTILE"))
"""Functions whose frame plans show as one of peers."""


_TOP_N: Final = (
    "For the first rows of each group, select from a subquery with ROW_NUMBER() OVER (...) AS n, and WHERE n <= 3, say."
)


def _time_of(over: LogicalOverAggregate, source: PhysicalNode) -> TimeAttribute | None:
    """The kind of the time attribute that orders rows; None for another order.

    Raises:
        PlanningError: when the order is not supported.
    """
    if len(over.order_by) != 1:
        raise placed(f"The window can only be ordered by a single time column. {_TOP_N}", over.at)
    key = over.order_by[0]
    if key.descending:
        raise placed(f"The window can only be ordered in ASCENDING mode. {_TOP_N}", over.at)
    time = source.schema[key.index].time
    if time is None and over.frame.low.kind is not FrameBoundKind.UNBOUNDED_PRECEDING:
        raise placed(
            "Non-time attribute sort is not supported for bounded OVER window. Order by a column that has a "
            "watermark, or by PROCTIME().",
            over.at,
        )
    return time


def _check_frame(over: LogicalOverAggregate) -> None:
    frame = over.frame
    if frame.high.kind is not FrameBoundKind.CURRENT_ROW:
        raise placed("OVER RANGE FOLLOWING windows are not supported yet.", over.at)
    distance = frame.low.offset
    if distance is not None and isinstance(distance.type, IntervalType) and distance.type.unit.is_of_months:
        raise placed("the frame of OVER cannot be of months: use DAY, HOUR, MINUTE or SECOND", over.at)
    for name in dict.fromkeys(call.function for call in over.calls):
        if name in _BATCH_ONLY:
            raise placed(f"{name} Function is not supported in stream mode.", over.at)


_BATCH_ONLY: Final = frozenset(("LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST"))


def frame_of(frame: Frame) -> OverFrame:
    """The frame in the form of the operators."""
    return OverFrame(frame.is_rows, _distance(frame.low), _distance(frame.high))


def _distance(bound: FrameBound) -> int | None:
    if bound.kind in _WHOLE:
        return None
    if bound.offset is None:
        return 0
    value = _number(bound.offset)
    return -value if bound.kind is FrameBoundKind.PRECEDING else value


def _number(offset: Scalar) -> int:
    while isinstance(offset, Cast):
        offset = offset.operand
    if not isinstance(offset, Literal) or offset.value is None:
        raise PlanningError("the frame of OVER takes a literal as its distance: ROWS BETWEEN 2 PRECEDING AND ...")
    is_time = str(offset.type).startswith("INTERVAL")
    return int(offset.value) // _MICROS if is_time else int(offset.value)


def frame_text(frame: Frame) -> str:
    """The frame in the form of plans."""
    bounds = []
    for bound in (frame.low, frame.high):
        text = bound.kind.value
        if isinstance(bound.offset, Literal):
            is_time = str(bound.offset.type).startswith("INTERVAL")
            text = f"{int(bound.offset.value) // _MICROS if is_time else bound.offset.value} {text}"
        bounds.append(text)
    return f"{'ROWS' if frame.is_rows else 'RANGE'} BETWEEN {bounds[0]} AND {bounds[1]}"


def bounded_rank(rank: LogicalRank, source: PhysicalNode) -> PhysicalNode:
    """Top-N in batch mode: ranks all rows, then filters by the range."""
    call = OverFunction(rank.function, (), rank.rank.type)
    exchange, frame = Exchange(source, rank.partition_by), OverFrame(is_rows=True)
    text = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    names = (rank.rank.name,)
    node = OverAggregate(exchange, rank.partition_by, rank.order_by, frame, text, (call,), names, None)
    width = len(source.schema)
    place = InputRef(width, type=rank.rank.type)
    conditions = [_compare(">=", place, Literal(rank.start, type=rank.rank.type))] if rank.start > 1 else []
    if rank.end is not None:
        conditions.append(_compare("<=", place, Literal(rank.end, type=rank.rank.type)))
    if rank.end_column is not None:
        field = source.schema[rank.end_column]
        end = Cast(InputRef(rank.end_column, type=field.type), is_implicit=True, type=rank.rank.type)
        conditions.append(_compare("<=", place, end))
    condition = all_of(conditions)
    if rank.shows_rank:
        return filtered(node, condition)
    return Calc(node, InputRef.all_of(source.schema), source.schema.names, condition)


def _compare(operator: str, left: Scalar, right: Scalar) -> Scalar:
    return Call(operator, (left, right), type=BOOLEAN)
