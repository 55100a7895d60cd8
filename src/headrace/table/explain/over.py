"""``OVER`` aggregates and ranks of batch mode in Flink's plans: sums from counts, rows sorted first, two phases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.explain.phases import Phase, Work
from headrace.table.functions.types import BIGINT, INT
from headrace.table.logical.relations import OverFunction
from headrace.table.logical.scalars import BOOLEAN, Branch, Call, Case, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.conversion import ConversionContext, converted
from headrace.table.physical.node import PhysicalNode, names_text, order_text
from headrace.table.physical.over import OverAggregate, bounded_rank, call_text
from headrace.table.physical.row_counts import size_of
from headrace.table.physical.scalar_text import execution_text
from headrace.table.rules.rank import LogicalRank

_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_ADDED: Final = re.compile(r"\$\d+")


@dataclass(frozen=True)
class ComputedOver(Phase):
    """An ``OVER`` aggregate of other functions than the program calls.

    Attributes:
        results: the columns of the aggregate that the program has, over those of this node.
        names: the names of these.
    """

    results: tuple[Scalar, ...] = ()
    names: tuple[str, ...] = ()


class _Columns:
    """The functions that Flink computes for an ``OVER`` aggregate, each once."""

    def __init__(self, over: OverAggregate, width: int) -> None:
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


def computed_over(over: OverAggregate, *, is_batch: bool) -> PhysicalNode:
    """The node that computes an aggregate in Flink's plan: the aggregate itself, or one of other functions."""
    is_summed = any(call.function in ("SUM", "AVG") for call in over.calls)
    calc = over.input.input if isinstance(over.input, Exchange) else None
    constants = _constants_of(calc) if isinstance(calc, Calc) else {}
    return _computed(over, constants, is_batch=is_batch) if is_batch or is_summed or constants else over


def with_results(node: PhysicalNode) -> PhysicalNode:
    """A node, below a projection to the columns that an aggregate of the program has where it computes others."""
    if not isinstance(node, ComputedOver):
        return node
    calc = Calc(node, node.results, node.names, mode=node.mode)
    return node if calc.is_identity else calc


def _computed(over: OverAggregate, constants: Mapping[int, Scalar], *, is_batch: bool) -> PhysicalNode:
    """The node without columns that hold constant arguments of calls, which are in the calls."""
    names = [
        execution_text(constants[place], ()) if place in constants else name
        for place, name in enumerate(over.input.schema.names)
    ]
    whole, calls, shown = over.input.schema, over.calls, over.schema.names
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
        terms = (*order, *windows, ("select", names_text(schema.names)))
        by = over.partition_by
        return ComputedOver(_sorted(over), schema, over.name, terms, by, results, shown, mode=over.mode, work=work)
    terms = (*order, ("window", f" {over.frame_text}"), ("select", names_text([*given.names, *texts])))
    return ComputedOver(over.input, schema, over.name, terms, (), results, shown, mode=over.mode, work=work)


def _without(over: OverAggregate, constants: Mapping[int, Scalar]) -> tuple[OverAggregate, dict[int, int]]:
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


def _order(over: OverAggregate) -> Sequence[tuple[str, str]]:
    names = over.input.schema.names
    terms = [("partitionBy", names_text([names[index] for index in over.partition_by]))] if over.partition_by else []
    return [*terms, ("orderBy", order_text(over.order_by, over.input.schema))] if over.order_by else terms


def _sorted(over: OverAggregate) -> PhysicalNode:
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


def _constants_of(calc: Calc) -> dict[int, Scalar]:
    """The columns that a rule has added for constant arguments of calls."""
    pairs = enumerate(zip(calc.expressions, calc.names, strict=True))
    return {
        place: each
        for place, (each, name) in pairs
        if _ADDED.fullmatch(name) and not any(isinstance(node, InputRef) for node in each.walk())
    }


def converted_rank(rank: LogicalRank, context: ConversionContext) -> PhysicalNode:
    """A rank of batch mode: with an end, of the rows of each task, and then of all of them."""
    source = converted(rank.input, context)
    if rank.function != "RANK" or rank.end is None:
        return bounded_rank(rank, source)
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
