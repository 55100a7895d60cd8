"""Parts of dates and times. Timestamps with a zone are looked at in UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.expressions.functions import CALENDAR, CLOCK, MOMENT, Datum, Family, Function, Overload


def _without_zone(value: Datum) -> Datum:
    """The same in UTC without saying so: Arrow would look zones up in a database that not every machine has."""
    kind = value.type
    return value.cast(pa.timestamp(kind.unit)) if pa.types.is_timestamp(kind) and kind.tz else value


def _part(family: Family, kernel: Callable[[Datum], Datum]) -> Function:
    def compute(value: Datum) -> Datum:
        return kernel(_without_zone(value))

    return Function((Overload((family,), Types.LONG(), compute),))


def _day_of_week(value: Datum) -> Datum:
    return pc.day_of_week(value, count_from_zero=False)


def _epoch_millis(value: Datum) -> Datum:
    return pc.floor_temporal(value, unit="millisecond").cast(pa.timestamp("ms"), safe=False).cast(pa.int64())


FUNCTIONS: Final[dict[str, Function]] = {
    "year": _part(CALENDAR, pc.year),
    "quarter": _part(CALENDAR, pc.quarter),
    "month": _part(CALENDAR, pc.month),
    "day": _part(CALENDAR, pc.day),
    "day_of_week": _part(CALENDAR, _day_of_week),
    "day_of_year": _part(CALENDAR, pc.day_of_year),
    "hour": _part(CLOCK, pc.hour),
    "minute": _part(CLOCK, pc.minute),
    "second": _part(CLOCK, pc.second),
    "epoch_millis": _part(MOMENT, _epoch_millis),
}
"""By name."""
