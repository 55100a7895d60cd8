"""When keys of records equal those that a lookup knows, and whether they can."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidTypeError
from headrace.state.keys.typed import NAN, same_nan

if TYPE_CHECKING:
    from collections.abc import Iterable


def found_key(key: Any) -> Any:
    """A key as a dict finds it: all NaNs are one, as in the keys of streams, and not each unlike itself."""
    return same_nan(key, NAN)


def check_comparable(asked: Iterable[Any], known: Iterable[Any]) -> None:
    """Refuse keys of which none can equal one that is known: texts beside numbers, or bytes.

    Raises:
        InvalidTypeError: with a key of either.
    """
    mine, theirs = ({_kind(key): key for key in keys} for keys in (asked, known))
    if mine and theirs and not mine.keys() & theirs.keys() and None not in {*mine, *theirs}:
        one, other = next(iter(mine.values())), next(iter(theirs.values()))
        raise InvalidTypeError(
            f"keys of records, {one!r} say, equal none of those that there are, {other!r} say: give both the same type"
        )


def _kind(key: Any) -> type | None:
    return next((kind for kind in (str, bytes, Number) if isinstance(key, kind)), None)
