"""``RecordAccumulator``: the batches that wait to be delivered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.log.producer_batch import ProducerBatch

RECORD_BYTES: Final = 256
"""What a record counts besides its key and value, so that a batch has 65,536 at most."""

GROWTH_BYTES: Final = 1 << 20
"""With so many new bytes a batch is to be counted anew: not for each record, as that takes a lock."""

_BATCH_BYTES: Final = 16 << 20
"""So much does not linger."""

_FULL_BATCHES: Final = 4
"""How many full batches wait before ``send`` does."""


class RecordAccumulator:
    """Batches in the order in which they were begun. Any number of threads add to it, one at a time takes all.

    Args:
        linger: how many seconds a record may wait for others.
    """

    def __init__(self, linger: float) -> None:
        self._linger = linger
        self._waits = threading.Condition(threading.Lock())
        self._queue: list[ProducerBatch] = []
        self._size = 0
        self._error: BaseException | None = None
        self._closed = False

    # --- who adds ----------------------------------------------------------------------------------------------------

    def add(self, batches: Sequence[ProducerBatch], size: int = 0) -> None:
        """Add batches, which may still grow.

        Args:
            batches: in their order.
            size: of what is in them.

        Raises:
            InvalidProgramError: when it is closed.
            OSError: when what was added before could not be delivered; told once.
        """
        with self._waits:
            error, self._error = self._error, None
            self._waits.notify_all()
            if error is not None:
                raise error
            if self._closed:
                raise InvalidProgramError("the producer is closed")
            self._queue += batches
            self._size += size
            if self._size >= _BATCH_BYTES:
                self._wait_for_room()

    def has_grown(self, batch: ProducerBatch) -> None:
        """Count what one's own batch has become larger by; waits while there is too much."""
        with self._waits:
            size, batch.size = batch.size, 0
            if batch.is_sealed:
                return
            self._size += size
            if self._size >= _BATCH_BYTES:
                self._waits.notify_all()
            if self._is_crowded():
                batch.seal()  # a column of a batch has 2 GiB at most
            self._wait_for_room()

    def has_missed(self, batch: ProducerBatch, place: int) -> bool:
        """Whether a record was added to a batch after that was sealed."""
        with self._waits:
            return not batch.holds(place)

    def seal(self) -> None:
        """Let nothing be added to the batches that wait, so that the next record is told what is the matter."""
        with self._waits:
            for batch in self._queue:
                batch.seal()

    # --- who takes ---------------------------------------------------------------------------------------------------

    def wait_until_due(self) -> bool:
        """Wait until there is something that has lingered, or is much.

        Returns:
            Whether there will ever be; not once it is closed.
        """
        with self._waits:
            self._waits.wait_for(lambda: (self._queue and self._error is None) or self._closed)
            self._waits.wait_for(lambda: self._closed or self._size >= _BATCH_BYTES, self._linger)
            return not self._closed

    def take(self) -> tuple[list[ProducerBatch], int]:
        """All batches with records, and how large they are; nothing waits then."""
        with self._waits:
            taken, size = self._queue, self._size
            self._queue, self._size = [], 0
            for batch in taken:
                batch.seal()
            self._waits.notify_all()
            return [batch for batch in taken if len(batch)], size

    def put_back(self, batches: list[ProducerBatch], size: int) -> None:
        """Have batches wait again, in front of the others."""
        with self._waits:
            self._queue = batches + self._queue
            self._size += size
            self._waits.notify_all()

    def fail(self, error: BaseException | None) -> None:
        """Have the next who adds something be told of an error; None forgets it."""
        with self._waits:
            self._error = error
            for batch in self._queue if error is not None else ():
                batch.seal()
            self._waits.notify_all()

    def close(self) -> None:
        """Take nothing any more."""
        with self._waits:
            self._closed = True
            for batch in self._queue:
                batch.seal()
            self._waits.notify_all()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _is_crowded(self) -> bool:
        return self._size >= _FULL_BATCHES * _BATCH_BYTES

    def _wait_for_room(self) -> None:
        self._waits.wait_for(lambda: not self._is_crowded() or self._error is not None or self._closed)
