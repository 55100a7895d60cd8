"""Sums that do not depend on how their input was cut: of floats without rounding, of integers without overflow.

A sum of doubles is kept as an *expansion*: a few doubles whose exact sum is the exact sum of all values. The first,
``hi``, is the sum rounded once; ``lo`` is the rounding error of that; what does not fit into these two (values whose
magnitudes differ by more than some 15 decimal digits within one group) goes to the list ``rest``. Partial sums
therefore merge without error, in any order and any grouping, and the double that comes out at the end is **the
correctly rounded exact sum** (what ``math.fsum`` gives): the error is at most half a unit in the last place, and the
same for every cut.

How a group is summed without error (S. M. Rump's AccSum): with ``sigma`` a power of two that is at least the number of
summands times the largest of them, ``q = (x + sigma) - sigma`` is ``x`` rounded to a multiple of ``sigma * 2**-53``;
``x - q`` is exact, and so is any sum of the ``q``, in any order. Repeat with what remains until nothing does.

Infinities and NaN follow IEEE 754 whatever the order: NaN, or infinities of both signs, give NaN. A finite sum beyond
the range of doubles gives an infinity, but only at the end: partial sums may leave the range and return. So
may those of integers, which are kept with a carry.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import list_lengths, lists_of, valid_mask, validity
from headrace.common.errors import HeadraceError
from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregator import ColumnAggregator, Fields, GroupedRows, any_valid, running_sums
from headrace.state.runs.grouping import RowGroups, Segments

Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


_HUGE = 2.0**960
"""From here on ``sigma`` might overflow; groups with such values are summed with Python's integers."""
_LARGEST = float(np.finfo(np.float64).max)
_LONG_BITS = 63
_MANTISSA_BITS = 53
_SPLITTER = 2.0**27 + 1


class IntegerOverflowError(HeadraceError, ArithmeticError):
    """A sum of integers does not fit into 64 bits."""


class Expansion(NamedTuple):
    """Exact sums, one a group.

    Attributes:
        hi: the sums rounded to doubles (or the infinity or NaN that the sum is).
        lo: what rounding to ``hi`` has lost, rounded.
        rest: what is lost even so, as lists; null for nearly all groups; None when null for all.
    """

    hi: Doubles
    lo: Doubles
    rest: pa.ListArray | None = None


def sum_values(values: Doubles, segments: RowGroups) -> Expansion:
    """The exact sum of the values of each group."""
    return sum_terms([values], segments)


def sum_ranges(values: Doubles, low: Longs, high: Longs) -> Expansion | None:
    """The exact sum of each range of values from ``low`` up to ``high``; None where values are huge or no numbers.

    What values are cut into is summed without error, so the difference of two running sums is exact as well.
    """
    if _needs_care(values):
        return None
    sums: list[Doubles] = []
    headroom = len(values).bit_length()
    for _, term in _cut(math.frexp(_largest(values))[1] if len(values) else 0, headroom, values):
        running = np.append(0.0, np.cumsum(term))
        sums.append(running[high] - running[low])
    return _packed(distilled(sums), len(low))


def merge_sums(partial: Expansion, segments: RowGroups) -> Expansion:
    """The exact sum of the partial sums of each group."""
    terms: list[tuple[Doubles, Longs | None]] = [(partial.hi, None), (partial.lo, None)]
    if partial.rest is not None and _has_rest(partial):
        lengths = np.diff(partial.rest.offsets.to_numpy())
        terms.append((partial.rest.flatten().to_numpy(), np.repeat(segments.ids, lengths)))
    return _sum(terms, segments)


def add_sums(a: Expansion, b: Expansion) -> Expansion | None:
    """The exact sums of the sums of two tables, group by group; None where that is for :func:`merge_sums` to do."""
    if _has_rest(a) or _has_rest(b) or _needs_care(a.hi) or _needs_care(b.hi):
        return None
    return _packed(distilled([a.hi, b.hi, a.lo, b.lo]), len(a.hi))


def running_sums_of(partial: Expansion, segments: Segments) -> Expansion | None:
    """The exact running sum of partial sums in each group; None if values have to be summed in pairs."""
    if _has_rest(partial) or _needs_care(partial.hi) or not segments.total:
        return None
    headroom = (2 * segments.total).bit_length()
    exponent = math.frexp(max(_largest(partial.hi), _largest(partial.lo)))[1]
    terms: dict[int, Doubles] = {}
    for values in (partial.hi, partial.lo):
        for level, term in _cut(exponent, headroom, values):
            terms[level] = terms[level] + term if level in terms else term
    # Sums of one level are exact over all groups together, and so are their differences.
    running = [running_sums(terms[level], segments) for level in sorted(terms)]
    return _packed(distilled(running), segments.total)


def sum_terms(terms: Sequence[Doubles], segments: RowGroups) -> Expansion:
    """The exact sum of each group, of values that are the sums of several terms each."""
    return _sum([(term, None) for term in terms], segments)


def negated(sums: Expansion) -> Expansion:
    """The exact sums with the other sign."""
    rest = sums.rest
    if rest is not None and rest.null_count < len(rest):
        rest = lists_of(pc.negate(rest.flatten()), list_lengths(rest), np.asarray(rest.is_null()))
    return Expansion(0.0 - sums.hi, 0.0 - sums.lo, rest)


def round_sums(sums: Expansion) -> Doubles:
    """The doubles nearest to the exact sums."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = sums.hi + sums.lo
    if sums.rest is not None and _has_rest(sums):
        for group in np.flatnonzero(valid_mask(sums.rest)).tolist():
            parts = [float(sums.hi[group]), float(sums.lo[group]), *sums.rest[group].as_py()]
            nearest[group] = rounded(_exact(parts))
    return nearest


def sum_integers(values: Longs, segments: RowGroups) -> tuple[Longs, Longs | None]:
    """The sum of the values of each group: its low 64 bits, and how often 2**64 has to be added; None for never."""
    sums: Longs = segments.reduce(np.add, values)
    if segments.are_single:
        return sums, None
    bits = int(max(abs(int(values.max())), abs(int(values.min())))).bit_length()
    if bits + int(segments.counts.max()).bit_length() <= _LONG_BITS:
        return sums, None
    carries = _carries(values, segments)
    return sums, carries if carries.any() else None


def _carries(values: Longs, segments: RowGroups) -> Longs:
    """Sums the upper and the lower halves separately, which cannot overflow, and looks at the carry."""
    half = 32
    low = segments.reduce(np.add, values & (2**half - 1))
    high: Longs = segments.reduce(np.add, values >> half) + (low >> half)
    carries: Longs = (high + 2 ** (half - 1)) >> half
    return carries


def _has_rest(sums: Expansion) -> bool:
    return sums.rest is not None and sums.rest.null_count < len(sums.rest)


def _needs_care(values: Doubles) -> bool:
    """Return whether a value is huge, infinite or NaN."""
    return bool(len(values)) and not _largest(values) < _HUGE


def _sum(terms: list[tuple[Doubles, Longs | None]], segments: RowGroups) -> Expansion:
    """Sums all terms group by group; a term without group ids is laid out by ``segments``."""
    if any(_needs_care(values) for values, _ in terms):
        return _sum_with_care(terms, segments)
    sums: list[Doubles] = []
    for values, ids in terms:
        if ids is None:
            sums += _segment_sums(values, segments)
        elif len(values):
            sums += _scattered_sums(values, ids, len(segments))
    return _packed(distilled(sums), len(segments))


def _scattered_sums(values: Doubles, ids: Longs, groups: int) -> list[Doubles]:
    """:func:`_segment_sums` for values of which some groups have none, and which lie anywhere."""
    order = np.argsort(ids, kind="stable")
    values, ids = values[order], ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    found = []
    for sums in _segment_sums(values, Segments(starts, len(ids))):
        found.append(np.zeros(groups))
        found[-1][ids[starts]] = sums
    return found


def _segment_sums(values: Doubles, segments: RowGroups) -> list[Doubles]:
    """Arrays with a number a group, whose sum, taken without rounding, is the exact sum of each group."""
    if segments.are_single:
        return [values]
    headroom = int(segments.counts.max() - 1).bit_length()
    sums = segments.sums_of(partial(_cut, math.frexp(_largest(values))[1], headroom), values)
    return [sums[level] for level in sorted(sums)]


def _cut(exponent: int, headroom: int, values: Doubles) -> Iterator[tuple[int, Doubles]]:
    """Cuts values into terms that can be summed without error: the level of each, and the array.

    The ``sigma`` of a level follows from its number, so terms of one level fit together whatever the values are. From
    level to level it falls by as much as one brings down what remains.

    Args:
        exponent: all values are below this power of two.
        headroom: no more values than this power of two are summed.
        values: the values.
    """
    step, level = _MANTISSA_BITS - headroom, -1
    while top := _largest(values):
        # At least the next one: what remains may be as large as the bound itself, where rounding met a tie.
        level = max(level + 1, (exponent - math.frexp(top)[1]) // step)
        sigma = math.ldexp(1.0, exponent - level * step + headroom)
        term = values + sigma
        term -= sigma
        yield level, term
        values = values - term


def _largest(values: Doubles) -> float:
    """The largest magnitude; NaN where a value is NaN."""
    return max(float(values.max()), -float(values.min()))


def distilled(terms: list[Doubles]) -> list[Doubles]:
    """The same exact sums as expansions: each array is at most half a unit in the last place of the one before."""
    terms = [term for term in terms if term.any()]
    changed = len(terms) > 1
    while changed:
        changed = False
        for i in range(len(terms) - 1, 0, -1):
            total, error = two_sum(terms[i - 1], terms[i])
            changed = changed or bool((total != terms[i - 1]).any())
            terms[i - 1], terms[i] = total, error
        changed = changed and len(terms) > 2  # of two, their rounded sum and its error are what is wanted
    return [term for term in terms if term.any()]


def two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """The rounded sum and its rounding error (D. Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """The rounded product and its rounding error (T. J. Dekker); exact between 2**-969 and 2**1000 or so."""
    product = a * b
    a_hi, a_lo = _halves(a)
    b_hi, b_lo = _halves(b)
    return product, a_lo * b_lo - (((product - a_hi * b_hi) - a_lo * b_hi) - a_hi * b_lo)


def _halves(values: Doubles) -> tuple[Doubles, Doubles]:
    """Two doubles of at most 26 bits each whose sum is the value."""
    scaled = values * _SPLITTER
    upper = scaled - (scaled - values)
    return upper, values - upper


def exact_value(sums: Expansion, group: int) -> Fraction:
    """The exact sum of one group, which is finite."""
    rest = None if sums.rest is None else sums.rest[group].as_py()
    return _exact([float(sums.hi[group]), float(sums.lo[group]), *(rest or ())])


def _packed(terms: list[Doubles], groups: int) -> Expansion:
    hi = terms[0] + 0.0 if terms else np.zeros(groups)  # adding 0.0 turns -0.0, whose sign depends on the cut, into 0.0
    lo = terms[1] if len(terms) > 1 else np.zeros(groups)
    rest = np.stack(terms[2:], axis=1) if len(terms) > 2 else None
    return Expansion(hi, lo, None if rest is None else _lists(rest))


def _lists(rest: npt.NDArray[np.float64]) -> pa.ListArray:
    """The non-zero elements of each row as a list; null where there are none."""
    used = rest != 0
    lengths = used.sum(axis=1)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(rest[used]), mask=pa.array(lengths == 0))


def _sum_with_care(terms: list[tuple[Doubles, Longs | None]], segments: RowGroups) -> Expansion:
    """Sums groups that hold huge, infinite or NaN values one by one with Python's integers, the others as usual."""
    placed = [(values, segments.ids if ids is None else ids) for values, ids in terms]
    is_special = np.zeros(len(segments), np.bool_)
    for values, ids in placed:
        is_special[ids[~(np.abs(values) < _HUGE)]] = True
    plain: list[tuple[Doubles, Longs | None]] = [
        (np.where(is_special[placed_ids], 0.0, values), ids)
        for (values, placed_ids), (_, ids) in zip(placed, terms, strict=True)
    ]
    usual = _sum(plain, segments)
    hi, lo = usual.hi.copy(), usual.lo.copy()
    rest: list[list[float] | None] = [None] * len(segments) if usual.rest is None else usual.rest.to_pylist()
    for group, parts in _members(placed, is_special).items():
        components = [*_components(parts), 0.0, 0.0]
        hi[group], lo[group] = components[:2]
        rest[group] = components[2:-2] or None
    return Expansion(hi, lo, pa.array(rest, pa.list_(pa.float64())) if any(rest) else None)


def _members(placed: list[tuple[Doubles, Longs]], is_special: npt.NDArray[np.bool_]) -> dict[int, list[float]]:
    """All terms of the special groups, by group."""
    members: dict[int, list[float]] = {}
    for values, ids in placed:
        chosen = is_special[ids]
        for group, value in zip(ids[chosen].tolist(), values[chosen].tolist(), strict=True):
            members.setdefault(group, []).append(value)
    return members


def _components(values: list[float]) -> list[float]:
    """The exact sum of the values as an expansion; each component is finite unless the sum is not."""
    if not all(map(math.isfinite, values)):
        infinite = {value for value in values if not math.isfinite(value)}
        return [infinite.pop() if len(infinite) == 1 else math.nan]
    remaining, components = _exact(values), []
    while remaining:
        components.append(max(-_LARGEST, min(_LARGEST, rounded(remaining))))
        remaining -= Fraction(components[-1])
    return components


def _exact(values: Iterable[float]) -> Fraction:
    total = Fraction(0)
    for value in values:
        total += Fraction(value)
    return total


def rounded(value: Fraction) -> float:
    """The double nearest to a value; an infinity beyond the range of doubles."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_PLAIN: Final = r"^-?[0-9]+(\.[0-9]+)?$"
_DIGITS: Final = 76
_FEWEST_FREE: Final = 11
"""The digits that are left for the sum of many values."""
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
    """Return how many digits each number in plain notation has after the point."""
    points = pc.find_substring(texts, ".").to_numpy().astype(np.int64)
    lengths = pc.utf8_length(texts).to_numpy().astype(np.int64)
    return np.where(points < 0, 0, lengths - points - 1)


def _plain(value: Decimal) -> str:
    """A number without an exponent, and without a sign if it is zero."""
    return f"{value if value else abs(value):f}"


def _where(sums: pa.Array, valid: np.ndarray | None) -> pa.Array:
    return sums if valid is None else pc.if_else(pa.array(valid), sums, None)
