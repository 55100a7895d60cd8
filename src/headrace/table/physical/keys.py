"""Which columns identify the rows of a node (Flink's ``FlinkRelMdUpsertKeys``).

A key is *unique* where no two rows have the same values in it, and an *upsert key* where, besides, all changes of a row
come in their order, so that whoever takes them may write each over the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import product
from typing import Final

from headrace.table.logical.scalars import InputRef
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, WatermarkAssigner
from headrace.table.physical.changes import ChangelogNormalize, DropUpdateBefore
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.ranks import Rank
from headrace.table.physical.sorts import SortLimit

Keys = frozenset[frozenset[int]]

NO_KEYS: Final[Keys] = frozenset()


@singledispatch
def upsert_keys(_: PhysicalNode) -> Keys:
    """The upsert keys of a node, as sets of columns."""
    return NO_KEYS


def _key(columns: Iterable[int]) -> Keys:
    return frozenset({frozenset(columns)})


@upsert_keys.register
def _(node: TableSourceScan) -> Keys:
    return _key(node.scan.primary_key) if node.scan.primary_key else NO_KEYS


@upsert_keys.register(WatermarkAssigner)
@upsert_keys.register(DropUpdateBefore)
@upsert_keys.register(SortLimit)
def _(node: WatermarkAssigner | DropUpdateBefore | SortLimit) -> Keys:
    return upsert_keys(node.input)


@upsert_keys.register
def _(node: Exchange) -> Keys:
    """Changes of a row keep their order where they all go the same way."""
    found = upsert_keys(node.input)
    return found if not node.keys else frozenset(key for key in found if set(node.keys) <= key)


@upsert_keys.register
def _(node: ChangelogNormalize) -> Keys:
    return _key(node.key)


@upsert_keys.register
def _(node: GroupAggregate) -> Keys:
    return _key(range(len(node.group)))


@upsert_keys.register
def _(node: Rank) -> Keys:
    found = upsert_keys(node.input)
    if node.shows_rank:
        return found | _key((*node.partition_by, len(node.input.schema)))
    return found | _key(node.partition_by) if (node.start, node.end) == (1, 1) else found


@upsert_keys.register
def _(node: Calc) -> Keys:
    return renamed_keys(upsert_keys(node.input), places_of(node))


def places_of(node: Calc) -> dict[int, list[int]]:
    """By column of the input, the columns in which a node hands it on."""
    places: dict[int, list[int]] = {}
    for place, each in enumerate(node.expressions):
        if isinstance(each, InputRef):
            places.setdefault(each.index, []).append(place)
    return places


def renamed_keys(keys: Keys, places: dict[int, list[int]]) -> Keys:
    """Keys of an input as keys of columns that hand its columns on; those of which one is missing are gone."""
    found: set[frozenset[int]] = set()
    for key in keys:
        choices: Sequence[Sequence[int]] = [places.get(column, ()) for column in sorted(key)]
        found |= {frozenset(chosen) for chosen in product(*choices)}
    return frozenset(found)
