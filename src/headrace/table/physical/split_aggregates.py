"""Aggregates of distinct values in two levels: of buckets of values, and then of their results.

Of a group with many rows all values are in one task. In buckets by the hash of the value they are in many tasks, each
of which counts those of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.common.logical_types import LogicalType, TypeRoot, bigint
from headrace.table.functions.definitions import CallShape
from headrace.table.functions.table import FUNCTIONS
from headrace.table.functions.types import INT, root_of
from headrace.table.logical.scalars import AggregateCall, Call, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import unique_names
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.basic import Calc, Exchange, Expand, projected
from headrace.table.physical.node import PhysicalNode
from headrace.table.rules.conditions import call

_COUNT: Final = bigint().not_null()
_FINAL: Final = {
    "COUNT": ("$SUM0",),
    "SUM": ("SUM",),
    "SUM0": ("$SUM0",),
    "$SUM0": ("$SUM0",),
    "MIN": ("MIN",),
    "MAX": ("MAX",),
    "LISTAGG": ("LISTAGG",),
    "AVG": ("$SUM0", "$SUM0"),
}
"""By function, the functions that put the results of buckets together."""

_BY_VALUE: Final = ("MIN", "MAX")
"""Functions whose values are in buckets whether they are distinct or not."""

_WHOLE: Final = frozenset((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT))


@dataclass(frozen=True)
class SplitCalls:
    """Calls of an aggregate in two levels.

    Attributes:
        group: the grouping columns.
        calls: the calls.
        buckets: the number of buckets of values.
    """

    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    buckets: int

    def values_of(self, call: AggregateCall) -> frozenset[int] | None:
        """The columns by whose values a call is put into buckets; None for one that may be in any."""
        if not (call.is_distinct or call.function in _BY_VALUE):
            return None
        return frozenset(call.operands).difference(self.group)

    @property
    def hashed(self) -> list[int]:
        """The columns whose hashes are the buckets."""
        return sorted({column for each in self.calls for column in self.values_of(each) or ()})

    @property
    def sets(self) -> list[frozenset[int]]:
        """For each call the columns by which it is put into buckets."""
        known = {values for each in self.calls if (values := self.values_of(each)) is not None}
        rest = next(iter(known)) if len(known) == 1 else frozenset[int]()
        found = (self.values_of(each) for each in self.calls)
        return [rest if values is None else values for values in found]


def split_aggregate(
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    *,
    buckets: int,
    ttl: str | None,
) -> PhysicalNode | None:
    """The plan of an aggregate in two levels; None where no values are distinct, or a function cannot be split."""
    split = SplitCalls(group, calls, buckets)
    kinds = source.schema.types
    is_possible = all(each.function in _FINAL and not each.options and len(each.operands) <= 1 for each in calls)
    if not is_possible or not any(each.is_distinct for each in calls) or not split.hashed:
        return None
    if not all(_has_hash(kinds[column]) for column in split.hashed):
        return None
    node, keys, filters = _with_buckets(source, split)
    inner = [replace(part, filter=chosen) for each, chosen in zip(calls, filters, strict=True) for part in _parts(each)]
    names = _numbered([node.schema.names[index] for index in keys], len(inner))
    partial = GroupAggregate(Exchange(node, keys), keys, tuple(inner), names, ttl, "PARTIAL")
    return _with_results(_put_together(partial, split, ttl), split)


def _has_hash(kind: LogicalType) -> bool:
    return FUNCTIONS["HASH_CODE"].types(CallShape((InputRef(0, type=kind),), ())) is not None


def _numbered(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Names, and behind them those of further columns by their positions."""
    found = list(names)
    for _ in range(count):
        name = f"$f{len(found)}"
        found.append(name if name not in found else f"{name}_0")
    return tuple(found)


def _parts(given: AggregateCall) -> list[AggregateCall]:
    """The partial calls that each bucket computes for a call."""
    if given.function in _BY_VALUE:
        return [replace(given, is_distinct=False)]
    if given.function != "AVG":
        return [given]
    total = bigint() if root_of(given.type) in _WHOLE else given.type
    return [
        replace(given, function="$SUM0", type=total.not_null(), name=None),
        replace(given, function="COUNT", type=_COUNT, name=None),
    ]


def _with_buckets(source: PhysicalNode, split: SplitCalls) -> tuple[PhysicalNode, tuple[int, ...], list[int | None]]:
    """The rows with their buckets, the columns of the first level's key, and the filter column of each call."""
    width, hashed = len(source.schema), split.hashed
    buckets = [_bucket(InputRef.of(source.schema, column), split.buckets) for column in hashed]
    names = [*source.schema.names, *(f"$f{width + place}" for place in range(len(hashed)))]
    node = projected(source, [*InputRef.all_of(source.schema), *buckets], unique_names(names))
    keys = (*split.group, *range(width, width + len(hashed)))
    sets = split.sets
    if len(set(sets)) == 1:
        return node, keys, [each.filter for each in split.calls]
    numbers = [_number(hashed, values) for values in sets]
    expanded = _expanded(node, width, hashed, dict(zip(numbers, sets, strict=True)))
    return _filtered(expanded, split.calls, numbers, keys)


def _bucket(value: Scalar, buckets: int) -> Scalar:
    return call("MOD", call("HASH_CODE", value), Literal(buckets, type=INT.not_null()))


def _number(hashed: Sequence[int], values: frozenset[int]) -> int:
    """A number with a bit for each hash that a set leaves out; that of the first hash is the highest."""
    return sum(1 << (len(hashed) - 1 - place) for place, column in enumerate(hashed) if column not in values)


def _expanded(node: PhysicalNode, width: int, hashed: Sequence[int], sets: dict[int, frozenset[int]]) -> Expand:
    """A row for each set of hashes, with NULL for those that are not in it."""
    numbers = sorted(sets)
    projections = [
        (*range(width), *(width + at if column in sets[number] else None for at, column in enumerate(hashed)))
        for number in numbers
    ]
    return Expand(node, tuple(projections), tuple(numbers), unique_names([*node.schema.names, "$e"]))


def _filtered(
    node: Expand, calls: Sequence[AggregateCall], numbers: Sequence[int], keys: tuple[int, ...]
) -> tuple[PhysicalNode, tuple[int, ...], list[int | None]]:
    """The rows with a condition for each call: that they are those of its set."""
    *columns, number = InputRef.all_of(node.schema)
    conditions: dict[Scalar, str] = {}
    found = []
    for each, wanted in zip(calls, numbers, strict=True):
        condition = call("=", number, Literal(wanted, type=number.type))
        if each.filter is not None:
            condition = call("AND", condition, columns[each.filter])
        conditions.setdefault(condition, f"$g_{wanted}")
        found.append(condition)
    places = {condition: len(columns) + at for at, condition in enumerate(conditions)}
    names = unique_names([*node.schema.names[:-1], *conditions.values()])
    return Calc(node, (*columns, *conditions), names), keys, [places[condition] for condition in found]


def _put_together(partial: GroupAggregate, split: SplitCalls, ttl: str | None) -> GroupAggregate:
    """The second level: the results of all buckets of a group."""
    place, outer = len(partial.group), []
    for each, part in _with_parts(split.calls):
        function = _FINAL[each.function][0]
        kind = each.type if len(_FINAL[each.function]) == 1 else part.type.as_nullable()
        outer.append(AggregateCall(function, (place,), kind, name=each.name))
        place += 1
    keys = tuple(range(len(split.group)))
    names = _numbered([partial.schema.names[index] for index in keys], len(outer))
    return GroupAggregate(Exchange(partial, keys), keys, tuple(outer), names, ttl, "FINAL")


def _with_parts(calls: Sequence[AggregateCall]) -> list[tuple[AggregateCall, AggregateCall]]:
    return [(each, part) for each in calls for part in _parts(each)]


def _with_results(node: GroupAggregate, split: SplitCalls) -> PhysicalNode:
    """The results of the calls: averages are computed of sums and counts."""
    if all(each.function != "AVG" for each in split.calls):
        return node
    place = len(split.group)
    columns: list[Scalar] = list(InputRef.all_of(node.schema)[:place])
    names = list(node.schema.names[:place])
    for each in split.calls:
        results = [InputRef.of(node.schema, place + at) for at in range(len(_FINAL[each.function]))]
        place += len(results)
        if len(results) == 1:
            columns.append(results[0])
            names.append(node.schema.names[results[0].index])
        else:
            names.append(f"$f{len(columns)}")
            columns.append(_average(results[0], results[1], each.type))
    return Calc(node, tuple(columns), unique_names(names))


def _average(total: Scalar, count: Scalar, kind: LogicalType) -> Scalar:
    """The average of a sum and a count; NULL where nothing was counted."""
    result = (bigint() if root_of(kind) in _WHOLE else kind).as_nullable()
    is_none = call("=", count, Literal(0, type=_COUNT))
    mean = Call("/", (total, count), type=result)
    found = Call("IF", (is_none, Literal(None, type=kind.as_nullable()), mean), type=result)
    return found if result == kind.as_nullable() else Cast(found, type=kind.as_nullable())
