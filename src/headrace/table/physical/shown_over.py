"""``OVER`` aggregates as plans show them: a sum as a count and a ``$SUM0``, and in batch mode above a sort."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.operators.changelog.over.frames import OverFrame
from headrace.table.functions.types import BIGINT, INT
from headrace.table.logical.relations import OverFunction
from headrace.table.logical.scalars import BOOLEAN, Branch, Call, Case, Cast, InputRef, Literal, Scalar, SortKey
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.node import PhysicalNode, names_text, order_text
from headrace.table.physical.phases import Phase
from headrace.table.physical.row_counts import size_of
from headrace.table.physical.scalar_text import execution_text

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
    if is_batch:
        windows = _windows(columns.calls, texts, over.frame_text)
        shown = (*order, *windows, ("select", names_text(schema.names)))
        return ShownOver(_sorted(over), schema, over.name, shown, over.partition_by, results, mode=over.mode)
    shown = (*order, ("window", f" {over.frame_text}"), ("select", names_text([*given.names, *texts])))
    return ShownOver(over.input, schema, over.name, shown, results=results, mode=over.mode)


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
    sort = (("orderBy", names_text(keys)),)
    used = {*over.partition_by, *(key.index for key in over.order_by)}
    calc = source.input if isinstance(source, Exchange) else None
    if (
        not isinstance(source, Exchange)
        or not keys
        or not isinstance(calc, Calc)
        or calc.condition is not None
        or not _is_wider(calc)
    ):
        return Phase(source, source.schema, "Sort", sort) if keys else source
    # The projection makes rows wider: it is computed where they have arrived, and are sorted, if the keys allow it.
    places = [_place(calc, key) for key in source.keys or ()]
    if any(place is None for place in places):
        return Phase(source, source.schema, "Sort", sort)
    exchange = Exchange(calc.input, tuple(place for place in places if place is not None))
    if any(_place(calc, index) is None for index in used):
        return Phase(replace(calc, input=exchange), source.schema, "Sort", sort)
    return replace(calc, input=Phase(exchange, exchange.schema, "Sort", sort))


def _is_wider(calc: Calc) -> bool:
    return size_of(calc.schema) > size_of(calc.input.schema)


def _place(calc: Calc, index: int) -> int | None:
    """The column of the input that a column of a projection is, by the same name; None for computed ones."""
    found = calc.expressions[index]
    is_same = isinstance(found, InputRef) and calc.input.schema.names[found.index] == calc.schema.names[index]
    return found.index if is_same and isinstance(found, InputRef) else None
