"""Finding the rows of many keys in runs that are sorted by hash, and putting keys into that order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.keys.entries import order_by_hash
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.run import ALL_HASHES

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.state.keys.codecs import KeyColumn
    from headrace.state.runs.run import Run
    from headrace.state.runs.sections import Section

    Indices = npt.NDArray[np.int64]


def order_of_keys(keys: KeyColumn) -> Indices:
    """The order of distinct keys by hash, then by canonical value."""
    order, hashes = order_by_hash(keys.hashes)
    if (hashes[1:] == hashes[:-1]).any():
        table = pa.table({HASH: keys.hashes, KEY: keys.values})
        return np.asarray(pc.sort_indices(table, [(HASH, "ascending"), (KEY, "ascending")])).astype(np.int64)
    return order


def narrowed(run: Run, keys: KeyColumn) -> Run:
    """A run that has the rows of keys, sorted by hash; where it lies in a table, others are not read."""
    section = run.section.narrowed(keys.slice(*_own_keys(run, keys)))
    return run if section is run.section else run.with_rows(section)


def find_rows(run: Run, keys: KeyColumn) -> tuple[Indices, Indices]:
    """Where keys, sorted by hash, are in a run: the positions of those that were found, and their rows in its section.

    Keys whose rows do not count in this run are not found.
    """
    start, stop = _own_keys(run, keys)
    found, rows = _find(run.section, keys.slice(start, stop))
    return found + start, rows


def find_all_own_rows(run: Run, keys: KeyColumn) -> tuple[Indices, Indices]:
    """As :func:`find_all_rows`, of the section of a run; keys whose rows do not count in this run are not found."""
    start, stop = _own_keys(run, keys)
    found, rows = find_all_rows(run.section, keys.slice(start, stop))
    return found + start, rows


def _own_keys(run: Run, keys: KeyColumn) -> tuple[int, int]:
    """First and last of those keys, sorted by hash, whose rows count in a run."""
    if run.hashes == ALL_HASHES:
        return 0, len(keys)
    low, last = np.uint64(run.hashes[0]), np.uint64(run.hashes[1] - 1)
    return int(np.searchsorted(keys.hashes, low)), int(np.searchsorted(keys.hashes, last, side="right"))


def find_all_rows(section: Section, keys: KeyColumn) -> tuple[Indices, Indices]:
    """All rows of keys in a section that has any number of rows a key: positions of the keys, and the rows.

    Both the keys, which differ, and the section are sorted by hash and key; so are the rows that are found.
    """
    if not section.rows or not len(keys):
        return _NOTHING, _NOTHING
    rows = section.lower_bounds(HASH, keys.hashes)
    found = np.flatnonzero(_hashes_at(section, rows) == keys.hashes)
    rows = rows[found]
    positions, places, more = [found], [rows], found
    while len(more):
        rows = rows + 1
        is_same = (rows < section.rows) & (_hashes_at(section, rows) == keys.hashes[more])
        more, rows = more[is_same], rows[is_same]
        positions.append(more)
        places.append(rows)
    found, rows = np.concatenate(positions), np.concatenate(places)
    if not pa.types.is_int64(keys.values.type) and len(found):
        is_key = np.asarray(pc.equal(section.take(KEY, rows), keys.values.take(pa.array(found)))).astype(bool)
        found, rows = found[is_key], rows[is_key]
    order = np.argsort(rows, kind="stable")
    return found[order], rows[order]


def _find(section: Section, keys: KeyColumn) -> tuple[Indices, Indices]:
    if not section.rows or not len(keys):
        return _NOTHING, _NOTHING
    # The probes are sorted, so the search walks through the run once, which is several times as fast.
    rows = section.lower_bounds(HASH, keys.hashes)
    found = np.flatnonzero(_hashes_at(section, rows) == keys.hashes)
    rows = rows[found]
    if pa.types.is_int64(keys.values.type) or not len(found):
        return found, rows  # different integers have different hashes
    return _verified(section, keys, found, rows)


_NOTHING: Final = np.zeros(0, dtype=np.int64)


def _hashes_at(section: Section, rows: Indices) -> npt.NDArray[np.uint64]:
    """The hashes in these rows; that of the last row for one beyond it."""
    hashes: npt.NDArray[np.uint64] = section.take(HASH, np.minimum(rows, section.rows - 1)).to_numpy()
    return hashes


def _verified(section: Section, keys: KeyColumn, found: Indices, rows: Indices) -> tuple[Indices, Indices]:
    """Keeps the rows that hold the key itself; where another key has the same hash, looks at the rows that follow."""
    positions, places = [], []
    while len(found):
        same = np.asarray(pc.equal(section.take(KEY, rows), keys.values.take(pa.array(found)))).astype(bool)
        positions.append(found[same])
        places.append(rows[same])
        found, rows = found[~same], rows[~same] + 1
        if len(found):
            more = (rows < section.rows) & (_hashes_at(section, rows) == keys.hashes[found])
            found, rows = found[more], rows[more]
    return np.concatenate(positions), np.concatenate(places)
