"""Numbers, sizes and times as people read them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK

_BARS: Final = "▁▂▃▄▅▆▇█"
_BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def number(value: float) -> str:
    """``1,234,567``."""
    return f"{value:,.0f}"


def count(amount: int, what: str) -> str:
    """``1 record``, ``1,234 records``."""
    return f"{number(amount)} {what}{'' if amount == 1 else 's'}"


def rate(per_second: float) -> str:
    """``1 record/s``, ``0.4 records/s``, ``1,234 records/s``."""
    digits = 1 if 0 < per_second < 0.95 else 0
    text = f"{per_second:,.{digits}f}"
    return f"{text} record{'' if text == '1' else 's'}/s"


def size(value: int) -> str:
    """``1.2 MB``; a kilobyte has 1,024 bytes, as in the configuration."""
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(_BYTE_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} B" if unit == 0 else f"{amount:.1f} {_BYTE_UNITS[unit]}"


def span(seconds: float) -> str:
    """``4.2 s``, ``3 min 05 s``, ``2 h 10 min``, ``12 d 3 h``."""
    tenths = round(seconds, 1)
    if tenths < 60:
        return f"{tenths:.1f} s"
    minutes, rest = divmod(int(tenths), 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours_left} h"
    return f"{hours} h {minutes_left:02} min" if hours else f"{minutes} min {rest:02} s"


def precise_span(seconds: float) -> str:
    """The same, with milliseconds below a second: ``3 ms``, ``0.2 ms``."""
    if 0 < seconds < 0.0095:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else span(seconds)


def watermark(millis: int, lag: int | None = None) -> str:
    """A watermark as a point in time (UTC), with what it lags behind the clock; words for its two ends."""
    if millis == MIN_WATERMARK:
        return "none yet"
    if millis == MAX_WATERMARK:
        return "end of input"
    return point_in_time(millis) if lag is None else f"{point_in_time(millis)} ({behind(lag)})"


def point_in_time(millis: int) -> str:
    """``2025-01-31 12:00:00.250 UTC``; the number itself when it lies outside the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return f"{millis} ms"
    fraction = f".{moment.microsecond // 1000:03}" if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def behind(lag: int) -> str:
    """``12.5 s behind``; event time may run ahead of the clock as well."""
    return f"{span(abs(lag) / 1000)} {'behind' if lag >= 0 else 'ahead'}"


def trend(values: Iterable[float], width: int = 20) -> str:
    """The last values as a row of bars, from nothing to the largest of them."""
    shown = list(values)[-width:]
    largest = max(shown, default=0.0)
    if largest <= 0:
        return ""
    top = len(_BARS) - 1
    return "".join(_BARS[round(value / largest * top)] for value in shown)
