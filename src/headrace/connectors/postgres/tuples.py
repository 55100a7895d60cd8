"""Rows in messages of ``pgoutput``: found in columns, for all messages of a table at once.

A message is the kind of the change, the id of the table, and up to two rows: the one before, whole (``O``) or only its
key (``K``), and the new one (``N``). A row is the number of its columns and, of each, ``n`` for null, ``u`` for a large
value that was not changed and is left out, or ``t`` with a length and a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.errors import SourceChangedError
from headrace.connectors.postgres.relations import DELETE

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_TEXT: Final = ord("t")
_NULL: Final = ord("n")
_UNCHANGED: Final = ord("u")
_NEW: Final = ord("N")
_WHOLE: Final = ord("O")

_AHEAD: Final = 8
"""So many bytes are read behind the last one, of numbers that are not there."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column.

    Attributes:
        kinds: what each is: a text, null, or unchanged.
        starts: where its text begins.
        lengths: how long it is.
    """

    kinds: Bytes
    starts: Places
    lengths: Places

    def take(self, indices: Places) -> Cells:
        """Some of them."""
        return Cells(self.kinds[indices], self.starts[indices], self.lengths[indices])

    @property
    def are_unchanged(self) -> Mask:
        """Return which are left out, since they were not changed."""
        return np.equal(self.kinds, _UNCHANGED)

    def or_else(self, others: Cells) -> Cells:
        """The same, with others in the place of those that are left out."""
        missing = self.are_unchanged
        return Cells(
            np.where(missing, others.kinds, self.kinds),
            np.where(missing, others.starts, self.starts),
            np.where(missing, others.lengths, self.lengths),
        )

    @staticmethod
    def nulls(count: int) -> Cells:
        """So many cells that are null."""
        zeros = np.zeros(count, np.int64)
        return Cells(np.full(count, _NULL, np.uint8), zeros, zeros)

    @staticmethod
    def joined(one: Cells, other: Cells) -> Cells:
        """The cells of both."""
        return Cells(
            np.concatenate([one.kinds, other.kinds]),
            np.concatenate([one.starts, other.starts]),
            np.concatenate([one.lengths, other.lengths]),
        )


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The rows in messages about one table.

    Attributes:
        data: the messages.
        kinds: what each is: an insertion, an update or a deletion.
        old: the numbers of the messages that have a row before.
        is_whole: which of these have all its columns, and not only those of the key.
        old_cells: of these, the cells of each column.
        new: the numbers of the messages that have a new row.
        new_cells: of these, the cells of each column.
    """

    data: Bytes
    kinds: Bytes
    old: Places
    is_whole: Mask
    old_cells: list[Cells]
    new: Places
    new_cells: list[Cells]

    @classmethod
    def parse(cls, data: bytes, lengths: Places, columns: int) -> ChangedRows:
        """Find the rows.

        Args:
            data: the messages, one behind the other.
            lengths: how long each is.
            columns: how many columns the table has.
        """
        buffer = np.frombuffer(data + bytes(_AHEAD), np.uint8)
        starts = np.cumsum(lengths) - lengths
        kinds, tags = buffer[starts], buffer[starts + 5]
        old = np.flatnonzero(tags != _NEW)
        old_cells, ends = _rows(buffer, starts[old] + 6, columns)
        first = starts + 6
        first[old] = ends + 1
        new = np.flatnonzero(kinds != DELETE)
        new_cells, _ = _rows(buffer, first[new], columns)
        return cls(buffer, kinds, old, tags[old] == _WHOLE, old_cells, new, new_cells)

    def texts(self, cells: Cells) -> pa.Array:
        """The texts of cells."""
        return texts(self.data, cells)


def texts(data: Bytes, cells: Cells) -> pa.Array:
    """The texts of cells, as a column.

    Args:
        data: where they are.
        cells: the cells.
    """
    offsets = np.concatenate([[0], np.cumsum(cells.lengths)])
    places = np.repeat(cells.starts - offsets[:-1], cells.lengths) + np.arange(offsets[-1])
    valid = cells.kinds == _TEXT
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[places])]
    return pa.Array.from_buffers(pa.string(), len(valid), buffers)


def _rows(buffer: Bytes, places: Places, columns: int) -> tuple[list[Cells], Places]:
    """The cells of each column of the rows that begin somewhere, and where the rows end."""
    found = _number(buffer, places, 2)
    if (found != columns).any():
        raise SourceChangedError(
            f"a change has {int(found[found != columns][0])} columns, and its table had {columns}: this is no "
            "output of pgoutput that headrace knows"
        )
    places = places + 2
    cells = []
    for _ in range(columns):
        kinds = buffer[places]
        has_text = kinds == _TEXT
        lengths = np.where(has_text, _number(buffer, places + 1, 4), 0)
        cells.append(Cells(kinds, places + 5, lengths))
        places = places + np.where(has_text, 5 + lengths, 1)
    return cells, places


def _number(buffer: Bytes, places: Places, size: int) -> npt.NDArray[Any]:
    """The numbers of some bytes that are somewhere."""
    found = np.zeros(len(places), np.int64)
    for place in range(size):
        found = found << 8 | buffer[places + place]
    return found
