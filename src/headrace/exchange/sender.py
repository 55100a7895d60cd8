"""The sending end of an edge: collects what an operator emits, cuts it by target and seals it into envelopes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from headrace.common.batch import concat
from headrace.common.constants import MIN_WATERMARK
from headrace.exchange.channel import ChannelStatus, ChannelSummary
from headrace.exchange.envelope import MAX_CELL_BYTES, Envelope, Kind
from headrace.exchange.keying import keys_of
from headrace.exchange.payload import encode
from headrace.operators.keyed import KeyedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.common.batch import Batch
    from headrace.plan.job_plan import PlannedEdge
    from headrace.state.keys import KeyColumn

ROUTING_ROWS = 1 << 16
"""Rows routed at a time: a sort of this many one-byte partition numbers stays in the cache (measured)."""

COALESCE_ROWS = 8192
"""Batches smaller than this wait for more before they are sent: an envelope costs tens of microseconds."""


class EdgeSender:
    """Sends the records of one edge from one task.

    Args:
        edge: the edge.
        outbox: takes finished envelopes.
        guard: is around everything that calls the user's code (key functions) or shows that a record does not fit its
            type, so that an error names the operator.
    """

    def __init__(
        self,
        edge: PlannedEdge,
        outbox: Callable[[Envelope], None],
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.edge = edge
        self._outbox = outbox
        self._guard = guard
        self._pending: list[Batch] = []
        self._pending_rows = 0
        self._sequences = [0] * edge.receivers.parallelism
        self._channel = 0
        self._phase = 0
        self._start = MIN_WATERMARK

    def begin_channel(self, channel: int, phase: int, start: int) -> None:
        """All that follows comes from this piece of this channel."""
        self._channel, self._phase, self._start = channel, phase, start
        self._sequences = [0] * self.edge.receivers.parallelism

    def send(self, batch: Batch) -> None:
        """Send records; they may wait for more."""
        if not len(batch):
            return
        self._pending.append(batch)
        self._pending_rows += len(batch)
        if self._pending_rows >= COALESCE_ROWS:
            self.flush()

    def prepared(self, batch: Batch) -> Batch:
        """The records with their keys found and their columns made, so that another sender may send them.

        Whatever is wrong about them is told of the operator that made them, which is this sender's.
        """
        with self._guard():
            if batch.type.arrow_type is not None:
                _ = batch.columns
            return batch if self.edge.key is None else KeyedBatch.of(batch, keys_of(batch, self.edge.key))

    def send_prepared(self, batch: Batch) -> None:
        """Send what a sender of the same kind has prepared; it does not wait."""
        self.flush()
        with self._guard():
            for part in _parted(batch):
                self._route(part, part.keys if isinstance(part, KeyedBatch) else None)

    def flush(self) -> None:
        """Send what waits."""
        pending, self._pending, self._pending_rows = self._pending, [], 0
        if not pending:
            return
        key = self.edge.key
        with self._guard():
            # A keyed batch carries keys that concatenation would lose; those are large anyway.
            for batch in pending if isinstance(pending[0], KeyedBatch) else [concat(pending)]:
                for part in _parted(batch):
                    self._route(part, None if key is None else keys_of(part, key))

    def end_channel(self, final: int, status: ChannelStatus) -> None:
        """The piece is over: tell every receiver how it ended."""
        self.flush()
        for target, envelopes in enumerate(self._sequences):
            summary = ChannelSummary(self.edge.id, self._channel, self._phase, self._start, final, status, envelopes)
            self._outbox(self._envelope(target, -1, MIN_WATERMARK, self._phase, Kind.SUMMARY, summary.to_bytes()))

    def _route(self, batch: Batch, batch_keys: KeyColumn | None) -> None:
        for part in self.edge.partitioning.route(batch, batch_keys, self._channel, self.edge.receivers):
            sequence = self._sequences[part.target]
            self._sequences[part.target] = sequence + 1
            payload = encode(part.batch, part.keys, self.edge.key)
            watermark = int(part.batch.watermarks[0])
            self._outbox(self._envelope(part.target, self._phase, watermark, sequence, Kind.DATA, payload))

    def _envelope(self, target: int, phase: int, watermark: int, sequence: int, kind: Kind, payload: bytes) -> Envelope:
        edge = self.edge
        return Envelope(edge.target_stage, target, phase, watermark, edge.id, self._channel, sequence, kind, payload)


def _parted(batch: Batch) -> Iterator[Batch]:
    """The records in portions of a size that may go into the envelopes of one routing step."""
    rows = rows_at_a_time(batch)
    for start in range(0, len(batch), rows):
        yield batch.slice(start, start + rows) if len(batch) > rows else batch


def rows_at_a_time(batch: Batch) -> int:
    """How many records may go into the envelopes of one routing step, so that none of them grows too large.

    Records that are Python objects until they are sent have no known size; few of them go at a time.
    """
    if not batch.is_columnar:
        return COALESCE_ROWS
    width = int(batch.columns.nbytes) // len(batch)
    return max(1, min(ROUTING_ROWS, MAX_CELL_BYTES // max(width, 1)))
