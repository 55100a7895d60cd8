"""Makes values fit that are not of the very class that a type declares, where nothing is lost by it.

Each function takes one value and returns the one to store, or raises ``ValueError``.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np


def refuse(value: Any) -> Any:
    """Nothing but the declared class will do."""
    raise ValueError(value)


def integer(value: Any) -> int:
    """Integers of numpy and subclasses of ``int``, but not booleans."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ValueError(value)


def floating(value: Any) -> float:
    """Floats of numpy, and integers that a double holds exactly."""
    if isinstance(value, float | np.floating):
        narrowed = float(value)
        if isinstance(value, np.longdouble) and narrowed != value and not np.isnan(value):
            raise ValueError(value)
        return narrowed
    whole = integer(value)
    if int(float(whole)) != whole:
        raise ValueError(value)
    return float(whole)


def boolean(value: Any) -> bool:
    """Booleans of numpy; numbers are not truth values."""
    if isinstance(value, np.bool_):
        return bool(value)
    raise ValueError(value)


def text(value: Any) -> str:
    """The characters of a subclass of ``str``, whatever its own ``__str__`` makes of them."""
    if isinstance(value, str):
        return str.__str__(value)
    raise ValueError(value)


def binary(value: Any) -> bytes:
    """Anything made of bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise ValueError(value)


def decimal(value: Any) -> Decimal:
    """Integers; a float has been rounded already, so it is not taken for a decimal."""
    if isinstance(value, Decimal):
        return Decimal(value)
    return Decimal(integer(value))


def moment(value: Any) -> datetime.datetime:
    """A ``datetime64`` of whole microseconds, or an instance of a subclass of ``datetime`` without further digits."""
    if isinstance(value, np.datetime64):
        micros = value.astype("datetime64[us]")
        made = micros.item()
        if micros == value and isinstance(made, datetime.datetime):
            return made
    elif isinstance(value, datetime.datetime) and not getattr(value, "nanosecond", 0):
        clock = value.hour, value.minute, value.second, value.microsecond
        return datetime.datetime(value.year, value.month, value.day, *clock, value.tzinfo, fold=value.fold)
    raise ValueError(value)
