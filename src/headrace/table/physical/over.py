"""Physical nodes for ``OVER`` windows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import ClassVar, Final

from headrace.common.logical_types import AtomicType, IntervalType, LogicalType, TypeRoot
from headrace.graph.changelog_specs import OverAggregateSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.changelog.order import SortField
from headrace.operators.changelog.over.frames import OverFrame
from headrace.table.functions.python.aggregates import user_aggregate
from headrace.table.functions.types import BIGINT, INT
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import LogicalOverAggregate, OverFunction
from headrace.table.logical.scalars import (
    BOOLEAN,
    Branch,
    Call,
    Case,
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
from headrace.table.physical.phases import Phase, Work
from headrace.table.physical.row_counts import size_of
from headrace.table.physical.scalar_text import execution_text
from headrace.table.physical.translation import GraphBuilder, by_key
from headrace.table.rules.rank import LogicalRank

_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)


@dataclass(frozen=True)
class OverNode(PhysicalNode):
    """Functions over a window of rows, with what plans show of them."""

    input: PhysicalNode
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    frame: OverFrame
    frame_text: str
    calls: tuple[OverFunction, ...]
    names: tuple[str, ...]


def call_text(call: OverFunction, name: str, names: Sequence[str]) -> str:
    """``SUM(price) AS w0$o0``."""
    operands = names_text([names[index] for index in call.operands]) or "*"
    return f"{call.function}({'DISTINCT ' if call.is_distinct else ''}{operands}) AS {name}"


@dataclass(frozen=True)
class ShownOver(Phase):
    """An ``OVER`` aggregate that is only shown.

    Attributes:
        results: the columns of the computed node, over the shown ones.
    """

    results: tuple[Scalar, ...] = ()


class _Columns:
    """The functions that an ``OVER`` aggregate is shown with, each once."""

    def __init__(self, over: OverNode, width: int) -> None:
        self.width = width
        self.calls: list[OverFunction] = []
        self.prefix = over.names[0].rstrip("0123456789")
        given = over.input.schema
        self.sums = {call.operands: _sum_type(given, call) for call in over.calls if call.function in ("SUM", "AVG")}

    def add(self, call: OverFunction, function: str, kind: LogicalType) -> Scalar:
        made = replace(call, function=function, type=kind)
        if made not in self.calls:
            self.calls.append(made)
        return InputRef(self.width + self.calls.index(made), type=kind)

    def result(self, call: OverFunction) -> Scalar:
        """The result of a call."""
        if call.function not in ("SUM", "AVG"):
            return self.add(call, call.function, call.type)
        count = self.add(call, "COUNT", INT)
        total = self._sum(call, count)
        if call.function == "SUM":
            return total
        kind = call.type
        if isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL:
            return Call("/", (Cast(total, type=kind), count), type=kind)
        average = Call("/", (total, count), type=kind)
        is_integer = isinstance(kind, AtomicType) and kind.root in _INTEGERS
        return Cast(average, type=kind) if is_integer else average

    def _sum(self, call: OverFunction, count: Scalar) -> Scalar:
        is_any = Call(">", (count, Literal(0, type=BIGINT.not_null())), type=BOOLEAN)
        kind = self.sums[call.operands]
        return Case((Branch(is_any, self.add(call, "$SUM0", kind)),), Literal(None, type=kind), type=kind)


def _sum_type(given: Schema, call: OverFunction) -> LogicalType:
    """The type of ``SUM``: that of the operand, or of a decimal with all digits."""
    kind = given.types[call.operands[0]].as_nullable()
    if isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL:
        return replace(kind, size=38)
    return kind


def shown_over(over: OverNode, constants: Mapping[int, Scalar], *, is_batch: bool) -> PhysicalNode:
    """The node that plans show in its place.

    Args:
        over: the node.
        constants: the columns of its input that hold constant arguments of calls, which plans show in the calls.
        is_batch: whether it runs in batch mode.
    """
    names = [
        execution_text(constants[place], ()) if place in constants else name
        for place, name in enumerate(over.input.schema.names)
    ]
    whole, calls = over.input.schema, over.calls
    columns = _Columns(over, len(whole) - len(constants))
    summed = list(map(columns.result, calls))
    over, places = _without(over, constants)
    given = over.input.schema
    refs = {before: InputRef.of(given, now) for before, now in places.items()}
    results = (*(constants.get(place) or refs[place] for place in range(len(whole))), *summed)
    added = [Field(f"{columns.prefix}{at}", call.type) for at, call in enumerate(columns.calls)]
    schema = Schema((*given, *added))
    texts = [call_text(call, each.name, names) for call, each in zip(columns.calls, added, strict=True)]
    order = _order(over)
    work = Work(calls=len(columns.calls))
    if is_batch:
        windows = _windows(columns.calls, texts, over.frame_text)
        shown = (*order, *windows, ("select", names_text(schema.names)))
        by = over.partition_by
        return ShownOver(_sorted(over), schema, over.name, shown, by, results, mode=over.mode, work=work)
    shown = (*order, ("window", f" {over.frame_text}"), ("select", names_text([*given.names, *texts])))
    return ShownOver(over.input, schema, over.name, shown, results=results, mode=over.mode, work=work)


def _without(over: OverNode, constants: Mapping[int, Scalar]) -> tuple[OverNode, dict[int, int]]:
    """A node over an input without some columns, and the places of the others."""
    kept = [place for place in range(len(over.input.schema)) if place not in constants]
    places = {before: now for now, before in enumerate(kept)}
    exchange = over.input
    if not constants or not isinstance(exchange, Exchange) or not isinstance(calc := exchange.input, Calc):
        return over, places
    expressions = tuple(calc.expressions[place] for place in kept)
    below = replace(calc, expressions=expressions, names=tuple(calc.names[place] for place in kept))
    keys = None if exchange.keys is None else tuple(places[key] for key in exchange.keys)
    made = replace(
        over,
        input=replace(exchange, input=below.input if below.is_identity else below, keys=keys),
        partition_by=tuple(places[index] for index in over.partition_by),
        order_by=tuple(key.moved(places) for key in over.order_by),
    )
    return made, places


_OF_OFFSETS: Final = frozenset(("LAG", "LEAD"))
_OF_RANKS: Final = frozenset(("ROW_NUMBER", "RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK"))


def _windows(calls: Sequence[OverFunction], texts: Sequence[str], frame: str) -> Iterator[tuple[str, str]]:
    """The windows of batch mode: one for all calls in a row that look at the frame alike."""
    pairs = zip(calls, texts, strict=True)
    for number, (_, found) in enumerate(groupby(pairs, lambda pair: _way_of(pair[0].function))):
        yield f"window#{number}", f"{names_text([text for _, text in found])} {frame}"


def _way_of(function: str) -> int:
    return 1 if function in _OF_OFFSETS else 2 if function in _OF_RANKS else 0


def _order(over: OverNode) -> Sequence[tuple[str, str]]:
    names = over.input.schema.names
    terms = [("partitionBy", names_text([names[index] for index in over.partition_by]))] if over.partition_by else []
    return [*terms, ("orderBy", order_text(over.order_by, over.input.schema))] if over.order_by else terms


def _sorted(over: OverNode) -> PhysicalNode:
    source = over.input
    keys = [f"{source.schema.names[index]} ASC" for index in over.partition_by]
    keys += [order_text(over.order_by, source.schema)] if over.order_by else []
    sort, work = (("orderBy", names_text(keys)),), Work(len(over.partition_by) + len(over.order_by))
    used = {*over.partition_by, *(key.index for key in over.order_by)}
    calc = source.input if isinstance(source, Exchange) else None
    if (
        not isinstance(source, Exchange)
        or not keys
        or not isinstance(calc, Calc)
        or calc.condition is not None
        or not _is_wider(calc)
    ):
        return Phase(source, source.schema, "Sort", sort, work=work) if keys else source
    # The projection makes rows wider: it is computed where they have arrived, and are sorted, if the keys allow it.
    places = [_place(calc, key) for key in source.keys or ()]
    if any(place is None for place in places):
        return Phase(source, source.schema, "Sort", sort, work=work)
    exchange = Exchange(calc.input, tuple(place for place in places if place is not None))
    if any(_place(calc, index) is None for index in used):
        return Phase(replace(calc, input=exchange), source.schema, "Sort", sort, work=work)
    return replace(calc, input=Phase(exchange, exchange.schema, "Sort", sort, work=work))


def _is_wider(calc: Calc) -> bool:
    return size_of(calc.schema) > size_of(calc.input.schema)


def _place(calc: Calc, index: int) -> int | None:
    """The column of the input that a column of a projection is, by the same name; None for computed ones."""
    found = calc.expressions[index]
    is_same = isinstance(found, InputRef) and calc.input.schema.names[found.index] == calc.schema.names[index]
    return found.index if is_same and isinstance(found, InputRef) else None


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


@conversion_rule(LogicalOverAggregate)
def _over(over: LogicalOverAggregate, context: ConversionContext) -> PhysicalNode:
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
        raise PlanningError(f"The window can only be ordered by a single time column. {_TOP_N}")
    key = over.order_by[0]
    if key.descending:
        raise PlanningError(f"The window can only be ordered in ASCENDING mode. {_TOP_N}")
    time = source.schema[key.index].time
    if time is None and over.frame.low.kind is not FrameBoundKind.UNBOUNDED_PRECEDING:
        raise PlanningError(
            "Non-time attribute sort is not supported for bounded OVER window. Order by a column that has a "
            "watermark, or by PROCTIME()."
        )
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


def rank_phases(rank: LogicalRank, source: PhysicalNode) -> PhysicalNode:
    """``RANK`` of batch mode as plans show it: of the rows of each task, and then of all of them."""
    given = source.schema
    names = given.names
    keys = [names[index] for index in rank.partition_by]
    order = order_text(rank.order_by, given)
    sort = (("orderBy", names_text([*(f"{key} ASC" for key in keys), order])),)
    work = Work(len(rank.partition_by) + len(rank.order_by))

    def ranked(start: int, *, is_global: bool, columns: Schema, below: PhysicalNode) -> Phase:
        terms = (
            ("rankType", rank.function),
            ("rankRange", f"rankStart={start}, rankEnd={rank.end}"),
            ("partitionBy", names_text(keys)),
            ("orderBy", order),
            ("global", str(is_global).lower()),
            ("select", names_text(columns.names)),
        )
        ordered = Phase(below, given, "Sort", sort, work=work)
        distributed = rank.partition_by if is_global else None
        return Phase(ordered, columns, "Rank", terms, distributed=distributed, work=replace(work, limit=rank.end))

    local = ranked(1, is_global=False, columns=given, below=source)
    exchange = Exchange(local, rank.partition_by)
    return ranked(rank.start, is_global=True, columns=rank.schema, below=exchange)
