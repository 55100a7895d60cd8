"""Unique keys and upsert keys of nodes (Flink's ``FlinkRelMdUpsertKeys``).

A key is *unique* where no two rows have the same values in it, and an *upsert key* where, besides, all changes of a row
come in their order, so that whoever takes them may write each over the one before.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from headrace.table.logical.scalars import InputRef, Scalar

Keys = frozenset[frozenset[int]]

NO_KEYS: Final[Keys] = frozenset()


def one_key(columns: Iterable[int]) -> Keys:
    """These columns as the only key."""
    return frozenset({frozenset(columns)})


def places_of(expressions: Sequence[Scalar]) -> dict[int, list[int]]:
    """Positions of the expressions that forward each column of the input."""
    places: dict[int, list[int]] = {}
    for place, each in enumerate(expressions):
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
