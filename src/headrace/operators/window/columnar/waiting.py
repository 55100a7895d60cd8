"""What waits before windows take it: records for others, as many at once cost less, and rows for their windows' ends.

Windows that have to be looked up by key, and written again, cost less a record the more records there are. So records
wait until event time goes on at the end of a stretch of input, or until there are many: :class:`WaitingRecords`.

Windows that are known by their ends are aggregated when they are due. What came out of order, before others that are
due earlier, waits on: :class:`WaitingRows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from headrace.operators.window.columnar.accumulators import Accumulators, Arrivals, Chunk
from headrace.state.runs.grouping import sorted_by, times_bounds
from headrace.state.runs.merge_input import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.base import KeyedBatch, OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout

    Longs = npt.NDArray[np.int64]

_Rows = TypeVar("_Rows", Chunk, Accumulators)

_MOST_BYTES: Final = 128 << 20
"""Records that take so much memory are many, however few they are."""


@dataclass(frozen=True)
class ArrivedRecords:
    """Records in the order in which they came; there is at least one.

    Attributes:
        chunk: what the aggregates need of them; as their windows are not known yet, all have the end 0.
        timestamps: their timestamps.
        watermarks: the watermark that each meets.
        batches: the records themselves, where they are wanted again; else none.
    """

    chunk: Chunk
    timestamps: Longs
    watermarks: Longs
    batches: tuple[KeyedBatch, ...] = ()

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def last_watermark(self) -> int:
        """The watermark that the last record meets."""
        return int(self.watermarks[-1])

    def slice(self, start: int, stop: int) -> ArrivedRecords:
        """The records from ``start`` up to ``stop``, without the batches."""
        return ArrivedRecords(self.chunk.slice(start, stop), self.timestamps[start:stop], self.watermarks[start:stop])

    @staticmethod
    def concat(pieces: Sequence[ArrivedRecords]) -> ArrivedRecords:
        """The records of all pieces, of which there is at least one."""
        if len(pieces) == 1:
            return pieces[0]
        return ArrivedRecords(
            Chunk.concat([piece.chunk for piece in pieces]),
            np.concatenate([piece.timestamps for piece in pieces]),
            np.concatenate([piece.watermarks for piece in pieces]),
            tuple(batch for piece in pieces for batch in piece.batches),
        )


class WaitingRecords:
    """The records of one subtask that wait.

    Whoever has them takes them when they are many, and whenever event time goes on, so that none waits when an epoch
    ends. They are copied once: when they are taken.

    Args:
        layout: tells what is needed of records.
        most_rows: so many records are many.
        keeps_batches: whether the records themselves are wanted again.
    """

    def __init__(self, layout: ColumnarWindowLayout, most_rows: int, *, keeps_batches: bool = False) -> None:
        self._layout = layout
        self._most_rows = most_rows
        self._keeps_batches = keeps_batches
        self._forget()

    def begin_epoch(self, epoch: int) -> None:
        """Records are numbered anew; those that an attempt left behind which has failed are gone."""
        self._arrivals = Arrivals(epoch)
        self._forget()

    def add(self, batch: KeyedBatch, context: OperatorContext) -> bool:
        """Has the records of a batch wait, of which there is at least one.

        Args:
            batch: the records.
            context: the operator.

        Returns:
            Whether there are many now.

        Raises:
            UserFunctionError: when an expression has no value for a record.
        """
        keys, rows = batch.keys, len(batch)
        columns, arrivals = self._layout.inputs_of(batch, context), self._arrivals.next(rows)
        chunk = Chunk(np.zeros(rows, np.int64), keys.hashes, keys.values, columns, arrivals)
        batches = (batch,) if self._keeps_batches else ()
        self._pieces.append(ArrivedRecords(chunk, batch.timestamps, batch.watermarks, batches))
        self._rows += rows
        # A few columns of a batch that was sent keep all of it in memory.
        self._bytes += batch.columns.nbytes if columns or batches else chunk.nbytes
        return self._rows >= self._most_rows or self._bytes >= _MOST_BYTES

    def take(self) -> ArrivedRecords | None:
        """All that wait, which do so no longer; None when there are none."""
        if not self._pieces:
            return None
        pieces = self._pieces
        self._forget()
        return ArrivedRecords.concat(pieces)

    def end_epoch(self) -> None:
        """Makes sure that none waits."""
        assert not self._pieces, "records came after the last watermark of the epoch"

    def _forget(self) -> None:
        self._pieces: list[ArrivedRecords] = []
        self._rows = self._bytes = 0


class WaitingRows(Generic[_Rows]):
    """Rows of windows, or panes, that wait until these are due.

    A piece of them that is due as a whole is handed on as it came. One that is due in part is ordered by end, and what
    is due is cut off from its front from then on, so that no row is copied twice however long it waits.

    Attributes:
        first_end: the first end of all; ``NO_TIME`` when none waits.
        held: how many rows are in memory: those that wait, and those that others of their piece keep there.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """None waits any more."""
        self._pieces: list[_Piece[_Rows]] = []
        self.first_end, self.held = NO_TIME, 0

    def add(self, rows: _Rows) -> None:
        """Has rows wait, of which there is at least one; they may have any ends."""
        self._keep(_Piece(rows, len(rows)))

    def take(self, upto: int) -> list[_Rows]:
        """The rows with an end that is not above ``upto``, in pieces as they came; they wait no longer."""
        pieces, due = self._pieces, []
        self.forget()
        for piece in pieces:
            if piece.last_end <= upto:
                due.append(piece.rows)
            elif piece.first_end > upto:
                self._keep(piece)
            else:
                first, rest = piece.cut(upto)
                due.append(first)
                self._keep(rest)
        return due

    def _keep(self, piece: _Piece[_Rows]) -> None:
        self._pieces.append(piece)
        self.first_end = min(self.first_end, piece.first_end)
        self.held += piece.held


class _Piece(Generic[_Rows]):
    """Rows that came together.

    Attributes:
        rows: those that wait.
        held: how many rows these keep in memory.
        first_end: the first of their ends.
        last_end: the last of them.
    """

    __slots__ = ("first_end", "held", "last_end", "rows")

    def __init__(self, rows: _Rows, held: int) -> None:
        self.rows: _Rows = rows
        self.held = held
        self.first_end, self.last_end = times_bounds(rows.ends)

    def cut(self, upto: int) -> tuple[_Rows, _Piece[_Rows]]:
        """The rows with an end that is not above ``upto``, and the others; there are some of both."""
        ends = self.rows.ends
        if (ends[1:] < ends[:-1]).any():
            in_order = self.rows.take(sorted_by(np.zeros(len(ends), np.int64), ends))
            return _Piece(in_order, len(ends)).cut(upto)
        place = int(np.searchsorted(ends, upto, side="right"))
        return self.rows.slice(0, place), _Piece(self.rows.slice(place, len(ends)), self.held)
