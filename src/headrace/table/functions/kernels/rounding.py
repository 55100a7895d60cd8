"""Rounding of many doubles at a time, exactly as their shortest texts are rounded."""

from collections.abc import Callable
from typing import Final

import numpy as np

from headrace.table.functions.kernels.kernel import Numbers

_EXACT_POWER: Final = 22
"""The largest power of ten that is exactly a double."""

_EXACT_WHOLE: Final = 2.0**52
_LAST_BITS: Final = 2.0**-50


def scaled(values: Numbers, places: int, to_whole: Callable[[Numbers], Numbers]) -> tuple[Numbers, Numbers]:
    """Doubles times a power of ten, as whole numbers, and for which of them it is not certain which one.

    A double and its shortest text differ by less than its last bits, which matters beside a border only: one half where
    numbers are rounded, a whole number where they are cut.

    Args:
        values: the doubles.
        places: the exponent of the power.
        to_whole: ``numpy.rint``, or ``numpy.trunc``.
    """
    if not 0 <= places <= _EXACT_POWER:
        return np.zeros_like(values), np.ones(len(values), bool)
    with np.errstate(all="ignore"):
        product = values * 10.0**places
        whole = to_whole(product)
        border = np.abs(product - np.rint(product))
        distance = np.abs(border - 0.5) if to_whole is np.rint else border
        certain = (distance > np.abs(product) * _LAST_BITS) & (np.abs(product) < _EXACT_WHOLE)
    return whole, ~(certain | ((product == whole) & (places == 0)))
