"""Rows that a lookup has found, kept for a while; and when keys of records equal those of the lookup."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol

from headrace.common.errors import InvalidTypeError
from headrace.state.keys.typed import NAN, same_nan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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


Found = list[Any]
"""All that is found of a key; empty where it is missing."""


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """What is kept.

    Attributes:
        max_keys: of how many keys at most; those that were not asked for the longest go first.
        expires_after: how many milliseconds after it was found, by the clock of the job; None for never.
        keeps_misses: whether it is kept that nothing was found.
    """

    max_keys: int
    expires_after: int | None
    keeps_misses: bool


class Cache(Protocol):
    """What is known of keys without asking."""

    def get(self, key: Any) -> Found | None:
        """What was found of a key; None where somebody has to be asked."""

    def put(self, key: Any, found: Found) -> bool:
        """This was found of a key; whether that is kept."""


class NoCache:
    """Nothing is known."""

    def get(self, key: Any) -> Found | None:
        return None

    def put(self, key: Any, found: Found) -> bool:
        return False


class PartialCache:
    """The keys that were asked for last.

    Args:
        settings: what is kept.

    Attributes:
        now: the clock of the epoch, in milliseconds.
    """

    def __init__(self, settings: CacheSettings) -> None:
        self._settings = settings
        self._found: OrderedDict[Any, tuple[int, Found]] = OrderedDict()
        self.now = 0

    def get(self, key: Any) -> Found | None:
        entry = self._found.get(key)
        if entry is None:
            return None
        since, found = entry
        limit = self._settings.expires_after
        if limit is not None and self.now - since >= limit:
            del self._found[key]
            return None
        self._found.move_to_end(key)
        return found

    def put(self, key: Any, found: Found) -> bool:
        if not found and not self._settings.keeps_misses:
            return False
        self._found[key] = self.now, found
        self._found.move_to_end(key)
        if len(self._found) > self._settings.max_keys:
            self._found.popitem(last=False)
        return True


class FullCache:
    """All there is; what is not in it is missing.

    Args:
        rows: what there is of each key.
    """

    def __init__(self, rows: Mapping[Any, Found]) -> None:
        self._rows = rows
        self._is_checked = False

    def get(self, key: Any) -> Found | None:
        found = self._rows.get(key)
        if found is None and not self._is_checked:
            check_comparable((key,), self._rows)
            self._is_checked = True
        return found or []

    def put(self, key: Any, found: Found) -> bool:
        raise AssertionError("nobody is asked, so nothing is found")
