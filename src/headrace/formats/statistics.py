"""Statistics of the values in a file, known without reading them: their number, the lowest and the highest one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of a column; None where something is not known.

    Attributes:
        nulls: the number of rows in which it is null.
        lowest: its lowest value, as Arrow gives it to Python.
        highest: its highest value.
        distinct: the number of its different values, or about so many.
    """

    nulls: int | None = None
    lowest: Any = None
    highest: Any = None
    distinct: float | None = None

    @staticmethod
    def of_all(parts: Iterable[ColumnStatistics]) -> ColumnStatistics:
        """The statistics of a column whose rows are in several parts."""
        known = list(parts)
        return ColumnStatistics(
            _of_known([each.nulls for each in known], sum),
            _of_known([each.lowest for each in known], min),
            _of_known([each.highest for each in known], max),
            _of_known([each.distinct for each in known], max),
        )


def _of_known(values: list[Any], function: Callable[[list[Any]], Any]) -> Any:
    if not values or any(each is None for each in values):
        return None
    try:
        return function(values)
    except TypeError:  # the column has another type in some files
        return None


def _nothing(_: str) -> ColumnStatistics:
    return ColumnStatistics()


@dataclass(frozen=True)
class Statistics:
    """The statistics of rows.

    Attributes:
        rows: their number.
        column: finds what is known of a column, by its name.
        is_exact: whether that is of all rows, and not of some that stand for all.
    """

    rows: int
    column: Callable[[str], ColumnStatistics] = _nothing
    is_exact: bool = False
