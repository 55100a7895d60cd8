"""Physical nodes for ``OVER`` windows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from headrace.common.logical_types import IntervalType
from headrace.graph.changelog_specs import OverAggregateSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.changelog.order import SortField
from headrace.operators.changelog.over.frames import OverFrame
from headrace.table.functions.python.aggregates import user_aggregate
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import OverFunction
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
    all_of,
)
from headrace.table.logical.schema import Field, Schema, TimeAttribute, unique_names
from headrace.table.physical.aggregates import constant_of
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.calcs import filtered
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, always, never, with_before
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text, order_text
from headrace.table.physical.phases import Phase
from headrace.table.physical.shown_over import OverNode, call_text, shown_over
from headrace.table.physical.translation import GraphBuilder, by_key
from headrace.table.rules.rank import Rank

_WHOLE = frozenset((FrameBoundKind.UNBOUNDED_PRECEDING, FrameBoundKind.UNBOUNDED_FOLLOWING))
_MICROS = 1000


@dataclass(frozen=True)
class OverAggregate(OverNode):
    """Functions over a window of rows, in columns appended to those of the input.

    Attributes:
        time: the kind of the time attribute that orders rows; None in batch mode.
    """

    name: ClassVar[str] = "OverAggregate"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    changes: ClassVar[bool] = False
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

    def as_shown(self, *, is_batch: bool) -> PhysicalNode:
        is_summed = any(call.function in ("SUM", "AVG") for call in self.calls)
        calc = self.input.input if isinstance(self.input, Exchange) else None
        constants = _constants_of(calc) if isinstance(calc, Calc) else {}
        return shown_over(self, constants, is_batch=is_batch) if is_batch or is_summed or constants else self

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given = self.input.schema
        spec = OverAggregateSpec(
            calls=tuple(
                operation(call, name, self.input)
                for call, name in zip(self.calls, self.schema.names[len(given) :], strict=True)
            ),
            frame=self.frame,
            time_field=self.order_by[0].index if self.time is TimeAttribute.ROWTIME else None,
            order=tuple(SortField(key.index, key.descending, not key.nulls_first) for key in self.order_by),
            changes=self.changes,
            update_before=self.mode.takes_update_before,
            ttl=builder.state_ttl,
        )
        return builder.add(spec, self.name, by_key(inputs[0], given, self.partition_by))


def _constants_of(calc: Calc) -> dict[int, Scalar]:
    """The columns that a rule has added for constant arguments of calls."""
    pairs = enumerate(zip(calc.expressions, calc.names, strict=True))
    return {
        place: each
        for place, (each, name) in pairs
        if _ADDED.fullmatch(name) and not any(isinstance(node, InputRef) for node in each.walk())
    }


_ADDED: Final = re.compile(r"\$\d+")


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


@conversion_rule(logical.OverAggregate)
def _over(over: logical.OverAggregate, context: ConversionContext) -> PhysicalNode:
    source = converted(over.input, context)
    frame = frame_of(over.frame)
    if context.is_batch:
        return _node(over, source, frame, None)
    if not over.names[0].startswith("w0$"):
        raise PlanningError(
            "Cannot generate a valid execution plan for the given query: functions over different windows in one "
            "SELECT are computed one after the other, in a query over the first ones as a subquery"
        )
    time = _time_of(over, source)
    _check_frame(over.frame, over.calls)
    if time is None:
        if any(call.function == "LAG" for call in over.calls):
            raise PlanningError("LAG over a changing order is not supported: order by a time attribute")
        return _node(over, source, frame, None, ChangingOverAggregate)
    if time is TimeAttribute.PROCTIME and frame.low is None:
        frame = OverFrame(is_rows=True)
    elif any(call.function == "LAG" for call in over.calls):
        frame = OverFrame(is_rows=False)  # peers share a frame
    return _node(over, source, frame, time)


def _node(
    over: logical.OverAggregate,
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


def _time_of(over: logical.OverAggregate, source: PhysicalNode) -> TimeAttribute | None:
    """The kind of the time attribute that orders rows; None for another order.

    Raises:
        PlanningError: when the order is not supported.
    """
    if len(over.order_by) != 1:
        raise PlanningError("The window can only be ordered by a single time column.")
    key = over.order_by[0]
    if key.descending:
        raise PlanningError("The window can only be ordered in ASCENDING mode.")
    time = source.schema[key.index].time
    if time is None and over.frame.low.kind is not FrameBoundKind.UNBOUNDED_PRECEDING:
        raise PlanningError("Non-time attribute sort is not supported for bounded OVER window.")
    return time


def _check_frame(frame: Frame, calls: Sequence[OverFunction]) -> None:
    if frame.high.kind is not FrameBoundKind.CURRENT_ROW:
        raise PlanningError("OVER RANGE FOLLOWING windows are not supported yet.")
    distance = frame.low.offset
    if distance is not None and isinstance(distance.type, IntervalType) and distance.type.unit.is_of_months:
        raise PlanningError("the frame of OVER cannot be of months: use DAY, HOUR, MINUTE or SECOND")
    for name in dict.fromkeys(call.function for call in calls):
        if name in _BATCH_ONLY:
            raise PlanningError(f"{name} Function is not supported in stream mode.")


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


def bounded_rank(rank: Rank, source: PhysicalNode) -> PhysicalNode:
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


def rank_phases(rank: Rank, source: PhysicalNode) -> PhysicalNode:
    """``RANK`` of batch mode as plans show it: of the rows of each task, and then of all of them."""
    given = source.schema
    names = given.names
    keys = [names[index] for index in rank.partition_by]
    order = order_text(rank.order_by, given)
    sort = (("orderBy", names_text([*(f"{key} ASC" for key in keys), order])),)

    def ranked(start: int, *, is_global: bool, columns: Schema, below: PhysicalNode) -> Phase:
        terms = (
            ("rankType", rank.function),
            ("rankRange", f"rankStart={start}, rankEnd={rank.end}"),
            ("partitionBy", names_text(keys)),
            ("orderBy", order),
            ("global", str(is_global).lower()),
            ("select", names_text(columns.names)),
        )
        ordered = Phase(below, given, "Sort", sort)
        return Phase(ordered, columns, "Rank", terms, distributed=rank.partition_by if is_global else None)

    local = ranked(1, is_global=False, columns=given, below=source)
    exchange = Exchange(local, rank.partition_by)
    return ranked(rank.start, is_global=True, columns=rank.schema, below=exchange)
