"""Exact sums of decimals of any size, which columns keep as text; and their averages.

A sum has as many places after the point as the value with the most, so it does not depend on the order or the cut.
Arrow adds up what fits into 76 digits; Python's decimals what does not, or is written with an exponent.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import HeadraceError
from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregator import ColumnAggregator, any_valid
from headrace.operators.arrays import validity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Longs
    from headrace.state.runs.grouping import Segments

_PLAIN: Final = r"^-?[0-9]+(\.[0-9]+)?$"
_DIGITS: Final = 76
_FEWEST_FREE: Final = 11
"""So many digits are left for the sum of many values."""
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_QUOTIENT: Final = Context(prec=38, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)


class NotFiniteError(HeadraceError, ArithmeticError):
    """A sum of decimals has met NaN or an infinity."""


@dataclass(frozen=True, slots=True)
class SumDecimals(ColumnAggregator):
    """The exact sum of decimals, in plain notation."""

    stored_name: ClassVar[str] = "SumDecimals"

    @property
    def fields(self) -> Fields:
        return ((f"sum({self.name})", Types.BIG_DEC()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return self._summed(rows.column(self.column), rows.groups.segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return columns if segments.are_single else self._summed(columns[0], segments)

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        texts = columns[0]
        unsigned, is_zero = pc.utf8_ltrim(texts, "-"), pc.match_substring_regex(texts, r"^-?[0.]*$")
        is_unsigned = pc.or_(is_zero, pc.starts_with(texts, "-"))
        return [pc.if_else(is_unsigned, unsigned, pc.binary_join_element_wise("-", texts, ""))]

    def _summed(self, texts: pa.Array, segments: Segments) -> list[pa.Array]:
        """The sum of each group; null where it has no value."""
        valid = validity(texts)
        present = texts.fill_null("0")
        if pc.all(pc.match_substring_regex(present, _PLAIN)).as_py() is not False:
            places = _places(present)
            whole = pc.max(pc.utf8_length(present)).as_py() or 0
            if whole + int(places.max(initial=0)) <= _DIGITS - _FEWEST_FREE:
                return [_where(_summed_by_arrow(present, places, segments), any_valid(valid, segments))]
        return [_where(self._summed_by_python(present, segments), any_valid(valid, segments))]

    def _summed_by_python(self, texts: pa.Array, segments: Segments) -> pa.Array:
        totals = [Decimal(0)] * len(segments)
        for group, text in zip(segments.ids.tolist(), texts.to_pylist(), strict=True):
            value = Decimal(text)
            if not value.is_finite():
                raise NotFiniteError(f"the sum of {self.name!r} has met {text}: filter out what is no number")
            totals[group] = _EXACT.add(totals[group], value)
        return pa.array([_plain(total) for total in totals], pa.string())


def quotients(results: Sequence[pa.Array]) -> pa.Array:
    """Sums divided by counts, to 38 digits, half up; null where the count is 0."""
    pairs = zip(results[0].to_pylist(), results[1].to_pylist(), strict=True)
    means = [_plain(_QUOTIENT.divide(Decimal(total), Decimal(count))) if count else None for total, count in pairs]
    return pa.array(means, pa.string())


def _summed_by_arrow(texts: pa.Array, places: Longs, segments: Segments) -> pa.Array:
    values = texts.cast(pa.decimal256(_DIGITS, int(places.max(initial=0))))
    if not segments.are_single:
        table = pa.table({"group": segments.ids, "value": values})
        sums = table.group_by("group", use_threads=False).aggregate([("value", "sum")])
        values = sums.column("value_sum").combine_chunks()
    shown = segments.reduce(np.maximum, places)
    found = np.empty(len(segments), object)
    for count in np.unique(shown).tolist():
        rows = np.flatnonzero(shown == count)
        found[rows] = values.take(pa.array(rows)).cast(pa.decimal256(_DIGITS, count)).cast(pa.string()).to_pylist()
    sums_as_text = pa.array(found, pa.string())
    if pc.any(pc.match_substring(sums_as_text, "E")).as_py():  # Arrow's way for very small numbers
        return pa.array([_plain(Decimal(text)) for text in sums_as_text.to_pylist()], pa.string())
    return sums_as_text


def _places(texts: pa.Array) -> Longs:
    """How many digits each number in plain notation has after the point."""
    points = pc.find_substring(texts, ".").to_numpy().astype(np.int64)
    lengths = pc.utf8_length(texts).to_numpy().astype(np.int64)
    return np.where(points < 0, 0, lengths - points - 1)


def _plain(value: Decimal) -> str:
    """A number without an exponent, and without a sign if it is zero."""
    return f"{value if value else abs(value):f}"


def _where(sums: pa.Array, valid: np.ndarray | None) -> pa.Array:
    return sums if valid is None else pc.if_else(pa.array(valid), sums, None)
