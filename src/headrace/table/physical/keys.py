"""Unique keys and upsert keys of nodes (Flink's ``FlinkRelMdUpsertKeys``).

A key is *unique* if no two rows have the same values in it. It is an *upsert key* if, in addition, all changes of a row
arrive in order, so that a consumer may overwrite a row with the next one.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.table.functions.types import CHARACTERS
from headrace.table.logical.scalars import Cast, InputRef, Scalar

Keys = frozenset[frozenset[int]]

NO_KEYS: Final[Keys] = frozenset()


def one_key(columns: Iterable[int]) -> Keys:
    """These columns as the only key."""
    return frozenset({frozenset(columns)})


def places_of(expressions: Sequence[Scalar]) -> dict[int, list[int]]:
    """Positions of the expressions that forward each column of the input, or a distinct text of each of its values."""
    places: dict[int, list[int]] = {}
    for place, each in enumerate(expressions):
        column = each
        while isinstance(column, Cast) and _keeps_apart(column):
            column = column.operand
        if isinstance(column, InputRef):
            places.setdefault(column.index, []).append(place)
    return places


_LONGEST: Final = {TypeRoot.TINYINT: 4, TypeRoot.SMALLINT: 6, TypeRoot.INTEGER: 11, TypeRoot.BIGINT: 20}
"""The length of the longest text of an integer."""


def _keeps_apart(cast: Cast) -> bool:
    """Return whether a cast changes no value, or gives a text in which nothing of an integer or a text is lost."""
    source, target = cast.operand.type, cast.type
    if source.as_nullable() == target.as_nullable():
        return True
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType) or target.root is not TypeRoot.VARCHAR:
        return False
    longest = source.size if source.root in CHARACTERS else _LONGEST.get(source.root)
    return longest is not None and (target.size or 0) >= longest


def renamed_keys(keys: Keys, places: dict[int, list[int]]) -> Keys:
    """Keys of an input, renamed to forwarded columns.

    Keys with a column that is not forwarded are lost, and without any column so is that of a single row, as in Flink.
    """
    found: set[frozenset[int]] = set()
    for key in keys if places else ():
        choices: Sequence[Sequence[int]] = [places.get(column, ()) for column in sorted(key)]
        found |= {frozenset(chosen) for chosen in product(*choices)}
    return frozenset(found)
