"""Grouping sets: each row once for each of them, and one aggregate over all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

from headrace.common.logical_types import bigint
from headrace.graph.changelog_specs import ExpandSpec
from headrace.table.logical import relations as logical
from headrace.table.logical.scalars import BOOLEAN, AggregateCall, Branch, Call, Case, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.basic import Calc
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text, unique_names
from headrace.table.physical.translation import GraphBuilder

_BIGINT: Final = bigint().not_null()
GROUPING_FUNCTIONS: Final = frozenset(("GROUPING", "GROUPING_ID"))

MakeAggregate = Callable[[PhysicalNode, tuple[int, ...], tuple[AggregateCall, ...], tuple[str, ...]], PhysicalNode]
"""Makes the node that aggregates: of its input, the columns to group by, the calls, and the names of all columns."""


@dataclass(frozen=True)
class Expand(PhysicalNode):
    """Several rows for each row, with the number of each in the last column.

    Attributes:
        projections: of each row which columns it has; None for one that is null.
        numbers: their numbers.
        names: the names of the columns.
    """

    name: ClassVar[str] = "Expand"
    input: PhysicalNode
    projections: tuple[tuple[int | None, ...], ...]
    numbers: tuple[int, ...]
    names: tuple[str, ...]

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        fields = []
        for column in zip(*self.projections, strict=True):
            field = given[next(index for index in column if index is not None)]
            fields.append(field.as_nullable() if None in column else field)
        return Schema((*fields, Field("", _BIGINT))).renamed(self.names)

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        rows = []
        for projection, number in zip(self.projections, self.numbers, strict=True):
            shown = ["null" if index is None else names[index] for index in projection]
            columns = [s if s == name else f"{s} AS {name}" for s, name in zip(shown, self.names, strict=False)]
            rows.append(f"{{{names_text([*columns, f'{number} AS {self.names[-1]}'])}}}")
        yield "projects", f"[{names_text(rows)}]"[1:-1]

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(ExpandSpec(self.projections, self.numbers, self.schema.names), self.name, *inputs)


def has_grouping(aggregate: logical.Aggregate) -> bool:
    """Whether an aggregate has several grouping sets, or asks which of them a row is of."""
    return not aggregate.is_simple or any(call.function in GROUPING_FUNCTIONS for call in aggregate.calls)


def with_grouping_sets(aggregate: logical.Aggregate, source: PhysicalNode, make: MakeAggregate) -> PhysicalNode:
    """The plan of an aggregate with grouping sets over its input."""
    group, width = aggregate.group, len(source.schema)
    # What is looked at beside being grouped by stays in a column of its own, which is never null for that.
    looked_at = {index for call in aggregate.calls for index in (*call.operands, call.filter) if index is not None}
    kept = {index: width + place for place, index in enumerate(sorted(looked_at.intersection(group)))}
    projections = tuple(
        (*(None if index in group and index not in keys else index for index in range(width)), *kept)
        for keys in aggregate.grouping_sets
    )
    names = unique_names([*source.schema.names, *(source.schema.names[index] for index in kept), "$e"])
    expand = Expand(source, projections, tuple(_number(group, keys) for keys in aggregate.grouping_sets), names)
    calls = [call for call in aggregate.calls if call.function not in GROUPING_FUNCTIONS]
    number = width + len(kept)
    called = aggregate.names[len(group) :]
    named = [
        name for call, name in zip(aggregate.calls, called, strict=True) if call.function not in GROUPING_FUNCTIONS
    ]
    node = make(
        expand,
        (*group, number),
        tuple(_moved(call, kept) for call in calls),
        (*aggregate.names[: len(group)], "$e", *named),
    )
    return _shown(aggregate, node)


def _number(group: tuple[int, ...], keys: tuple[int, ...]) -> int:
    """The bits of the columns that a grouping set leaves out, the first column's the highest."""
    return sum(1 << (len(group) - 1 - place) for place, index in enumerate(group) if index not in keys)


def _moved(call: AggregateCall, places: dict[int, int]) -> AggregateCall:
    operands = tuple(places.get(index, index) for index in call.operands)
    chosen = None if call.filter is None else places.get(call.filter, call.filter)
    return replace(call, operands=operands, filter=chosen)


def _shown(aggregate: logical.Aggregate, node: PhysicalNode) -> PhysicalNode:
    """The columns of the aggregate, of a node that has the number of the grouping set behind the keys."""
    group = aggregate.group
    columns = node.schema
    number = InputRef(len(group), type=_BIGINT)
    expressions: list[Scalar] = [
        InputRef(index, type=aggregate.schema[index].type, time=columns[index].time) for index in range(len(group))
    ]
    place = len(group) + 1
    for call in aggregate.calls:
        if call.function in GROUPING_FUNCTIONS:
            expressions.append(_grouping(aggregate, call, number))
        else:
            expressions.append(InputRef(place, type=columns[place].type, time=columns[place].time))
            place += 1
    return Calc(node, tuple(expressions), unique_names(aggregate.names))


def _grouping(aggregate: logical.Aggregate, call: AggregateCall, number: Scalar) -> Scalar:
    """What ``GROUPING`` gives: which of its operands the grouping set leaves out, as bits."""
    values = {_number(aggregate.group, keys): _number(call.operands, keys) for keys in aggregate.grouping_sets}
    branches = [
        Branch(Call("=", (number, _literal(key)), type=BOOLEAN.not_null()), _literal(value))
        for key, value in list(values.items())[:-1]
    ]
    last = _literal(list(values.values())[-1])
    return Case(tuple(branches), last, type=_BIGINT) if branches else last


def _literal(value: int) -> Literal:
    return Literal(value, type=_BIGINT)
