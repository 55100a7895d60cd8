"""Where the rows of keys are in sections that are sorted by hash, key and time: binary search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.join.join_log import TIME
from headrace.state.runs.layout import HASH, KEY

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.state.keys import KeyColumn
    from headrace.state.runs.sections import Section

    Longs = npt.NDArray[np.int64]

_LAST_HASH: Final = np.uint64(2**64 - 1)


def key_ranges(
    source: Section, keys: KeyColumn, of_keys: Longs, lows: Longs, highs: Longs
) -> tuple[Longs, Longs, Longs]:
    """Which probes find rows of their key from ``lows`` to ``highs``, and from where to where."""
    firsts, lasts = _ranges_of_keys(source, keys)
    found = np.flatnonzero((firsts < lasts)[of_keys])
    if not len(found):
        return found, found, found
    times = source.column(TIME).to_numpy()
    ends = lasts[of_keys[found]]
    starts = _bisect(times, firsts[of_keys[found]], ends, lows[found], np.less)
    stops = _bisect(times, starts, ends, highs[found], np.less_equal)
    is_any = starts < stops
    return found[is_any], starts[is_any], stops[is_any]


def _bisect(times: Longs, starts: Longs, stops: Longs, values: Longs, precede: np.ufunc) -> Longs:
    """In each of some sorted ranges of times, where those begin that do not precede a value."""
    lows, highs = starts.copy(), stops.copy()
    searched = np.flatnonzero(lows < highs)
    while len(searched):
        middles = (lows[searched] + highs[searched]) >> 1
        is_before = precede(times[middles], values[searched])
        lows[searched[is_before]] = middles[is_before] + 1
        highs[searched[~is_before]] = middles[~is_before]
        searched = searched[lows[searched] < highs[searched]]
    return lows


def _ranges_of_keys(source: Section, keys: KeyColumn) -> tuple[Longs, Longs]:
    """From where to where the rows of different keys are, which are by hash and key.

    A large log is in many sections, each with hashes of its own: no other keys are looked for there.
    """
    firsts, lasts = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    if source.rows:
        lowest, highest = (source.rows_of(HASH, row, row + 1).to_numpy() for row in (0, source.rows - 1))
        low, high = int(np.searchsorted(keys.hashes, lowest)[0]), int(np.searchsorted(keys.hashes, highest, "right")[0])
        firsts[low:high], lasts[low:high] = _ranges_of_own_keys(source, keys.slice(low, high))
    return firsts, lasts


def _ranges_of_own_keys(source: Section, keys: KeyColumn) -> tuple[Longs, Longs]:
    hashes = keys.hashes
    firsts = source.lower_bounds(HASH, hashes)
    lasts = source.lower_bounds(HASH, hashes + np.uint64(1))
    lasts[hashes == _LAST_HASH] = source.rows
    if pa.types.is_int64(keys.values.type):
        return firsts, lasts  # different integers have different hashes
    found = np.flatnonzero(firsts < lasts)
    wanted = keys.values.take(pa.array(found))
    is_key = np.ones(len(found), np.bool_)
    for rows in (firsts[found], lasts[found] - 1):
        is_key &= np.asarray(pc.equal(source.take(KEY, rows), wanted)).astype(bool)
    for number in found[~is_key].tolist():  # another key has the same hash
        firsts[number], lasts[number] = _range_among_others(source, keys.values[number], firsts[number], lasts[number])
    return firsts, lasts


def _range_among_others(source: Section, key: pa.Scalar, first: int, last: int) -> tuple[int, int]:
    rows = np.flatnonzero(np.asarray(pc.equal(source.rows_of(KEY, first, last), key)).astype(bool))
    return (first + int(rows[0]), first + int(rows[-1]) + 1) if len(rows) else (first, first)
