"""Unique keys and upsert keys of nodes (Flink's ``FlinkRelMdUpsertKeys``).

A key is *unique* if no two rows have the same values in it. It is an *upsert key* if, in addition, all changes of a row
arrive in order, so that a consumer may overwrite a row with the next one.
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
    """Keys of an input, renamed to forwarded columns; keys with a column that is not forwarded are lost."""
    found: set[frozenset[int]] = set()
    for key in keys:
        choices: Sequence[Sequence[int]] = [places.get(column, ()) for column in sorted(key)]
        found |= {frozenset(chosen) for chosen in product(*choices)}
    return frozenset(found)
