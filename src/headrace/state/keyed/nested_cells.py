"""Runs with several elements per key: their columns are lists, with one flat array of elements underneath."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.state.keyed.table import changed_keys
from headrace.state.runs.layout import CLEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.state.keyed.scope import StateScope
    from headrace.state.keyed.table import Match, StateTable


def is_cleared(match: Match) -> npt.NDArray[np.bool_]:
    """Which of the found rows make everything older void."""
    return np.asarray(match.column(CLEAR)).astype(bool)


def flat(match: Match, column: str) -> pa.Array:
    """The elements of all found rows in one list column, one after the other."""
    return match.column(column).flatten()


def segments(match: Match, column: str) -> Iterator[tuple[int, int, int]]:
    """For each found row which of the keys it belongs to, and where its elements are within what :func:`flat` gives."""
    lengths = match.column(column).value_lengths().to_numpy()
    stops = np.cumsum(lengths)
    return zip(match.positions.tolist(), (stops - lengths).tolist(), stops.tolist(), strict=True)


class NestedCells:
    """What is in memory for each key of a state with several elements per key: one cell, made when it is needed.

    Args:
        scope: whose keys these are.
        table: the stored side.
        make: makes an empty cell. Cells have the attributes ``is_read`` and ``is_changed``.
        read: takes from the rows that were found what the cells of keys need.
    """

    def __init__(
        self,
        scope: StateScope,
        table: StateTable,
        make: Callable[[], Any],
        read: Callable[[list[Match], list[Any]], None],
    ) -> None:
        self._scope = scope
        self._make = make
        self._fill = read
        self._cells: list[Any] = []
        self._loaded = 0
        self.table = table

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        self._cells.clear()
        self._loaded = 0

    def current(self) -> Any:
        """The cell of the current key; what is stored for the key need not have been read."""
        ordinal = self._scope.current.ordinal
        try:
            cell = self._cells[ordinal]
        except IndexError:
            self._cells.extend([None] * (len(self._scope.entries.all) - len(self._cells)))
            cell = None
        if cell is None:
            cell = self._cells[ordinal] = self._make()
        return cell

    def read(self) -> Any:
        """The cell of the current key, after ``read`` has seen it; lets it see all keys met since the last time."""
        cell = self.current()
        if not cell.is_read:
            self._read_all()
        return cell

    def _read_all(self) -> None:
        start, stop = self._loaded, len(self._cells)
        self._loaded = stop
        cells = [cell if cell is not None else self._make() for cell in self._cells[start:stop]]
        self._cells[start:stop] = cells
        # Every cell is filled, so that the state of a key is read at most once in an epoch.
        matches = []
        if not self.table.is_empty:
            matches = self.table.find(self._scope.entries.columns(start, stop), is_cleared)
        self._fill(matches, cells)
        for cell in cells:
            cell.is_read = True

    def changed(self) -> tuple[Any, list[Any]] | None:
        """The keys whose cells have changed, sorted, and their cells; None when there are none."""
        found = [ordinal for ordinal, cell in enumerate(self._cells) if cell is not None and cell.is_changed]
        if self.table.is_empty:  # nothing is there that an empty cell could hide
            found = [ordinal for ordinal in found if not self._cells[ordinal].is_empty]
        if not found:
            return None
        keys, ordinals = changed_keys(self._scope.entries, np.array(found, dtype=np.int64))
        return keys, [self._cells[ordinal] for ordinal in ordinals.tolist()]
