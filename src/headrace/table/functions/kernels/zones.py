"""Time zones: the offset of each point in time from UTC, from Python's database."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from headrace.table.functions.kernels.kernel import Numbers

MICROS_PER_SECOND: Final = 1_000_000

_SLOT: Final = 900 * MICROS_PER_SECOND
"""Offsets change at quarters of an hour only."""

_EPOCH: Final = datetime(1970, 1, 1)
_FIRST: Final = -62_000_000_000
_LAST: Final = 253_000_000_000
"""The seconds between which Python knows offsets; before and after they are what they are there."""

_FIXED: Final = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """The time zone of a name: ``UTC``, ``Europe/Berlin``, ``GMT+08:00``.

    Raises:
        ValueError: when there is none.
    """
    if name in ("UTC", "GMT", "Z", "UT"):
        return UTC
    fixed = _FIXED.fullmatch(name)
    if fixed:
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        return timezone(-offset if fixed[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}") from None


def is_zone(name: str) -> bool:
    """Return whether there is a time zone of a name."""
    try:
        zone_of(name)
    except ValueError:
        return False
    return True


_SHORT_NAMES: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""The short names of zones of Java's old classes."""


def known_zone(name: str) -> str:
    """The zone of a name as Java's old classes know it, and UTC where they know none.

    They know short names such as PST, and offsets only behind GMT.
    """
    whole = _SHORT_NAMES.get(name, name)
    return "UTC" if whole[:1] in "+-" or not is_zone(whole) else whole


def to_local(instants: Numbers, zone: str) -> Numbers:
    """Points in time, in microseconds of UTC, as a clock of the zone shows them."""
    kind = zone_of(zone)
    return instants if kind is UTC else instants + _offsets(instants, lambda second: _offset_at(second, kind))


def to_utc(local: Numbers, zone: str, *, is_later: bool = False) -> Numbers:
    """The points in time when a clock of the zone shows these.

    What no clock shows counts on from the time before the gap, as in Java.

    Args:
        local: what clocks show.
        zone: the name of the zone.
        is_later: whether it is the second one where clocks show it twice, as for Java's old classes.
    """
    kind = zone_of(zone)
    return local if kind is UTC else local - _offsets(local, lambda second: _offset_of(second, kind, is_later))


def offsets_of(instants: Numbers, zone: str) -> Numbers:
    """The offsets in microseconds at points in time."""
    kind = zone_of(zone)
    return np.zeros_like(instants) if kind is UTC else _offsets(instants, lambda second: _offset_at(second, kind))


def _offsets(moments: Numbers, offset: Callable[[int], int]) -> Numbers:
    slots, places = np.unique(moments // _SLOT, return_inverse=True)
    seconds = np.clip(slots * (_SLOT // MICROS_PER_SECOND), _FIRST, _LAST).tolist()
    found: Numbers = np.array([offset(second) for second in seconds], np.int64)[places] * MICROS_PER_SECOND
    return found


def _offset_at(second: int, zone: tzinfo) -> int:
    moment = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC)
    return _seconds(moment.astimezone(zone).utcoffset())


def _offset_of(second: int, zone: tzinfo, is_later: bool) -> int:
    shown = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=zone)
    first, second_one = _seconds(shown.utcoffset()), _seconds(shown.replace(fold=1).utcoffset())
    return min(first, second_one) if is_later and first > second_one else first


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else int(offset.total_seconds())
