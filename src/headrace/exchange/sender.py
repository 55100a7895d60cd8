"""The sending end of an edge: finds the keys of records, cuts them by target, and seals them into envelopes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch, concat
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.exchange.envelope import (
    MAX_CELL_BYTES,
    ChannelStatus,
    Envelope,
    EnvelopeKind,
    SummaryBook,
    dumps,
    encode,
    has_key,
)
from headrace.expressions import Bound, evaluate
from headrace.graph.partitioning import KeySelection, Sending
from headrace.operators.base import KeyedBatch
from headrace.operators.user_code import NO_RECORD, RecordError
from headrace.plan.job_plan import PlannedEdge
from headrace.state.keys import KeyColumn


def keys_of(batch: Batch, key: KeySelection) -> KeyColumn:
    """The keys of a batch.

    Raises:
        RecordError: when the user's key function raises, an expression has no value, a key is null or does not fit the
            declared key type.
    """
    if key.is_attached:
        assert isinstance(batch, KeyedBatch)
        return batch.keys
    # Taken from the columns, as the receiver does: rows that are not sent yet may have their fields in another order.
    if key.fields is not None and key.is_single and batch.type.is_composite:
        return _of_column(batch, key, batch.columns.column(batch.type.field_index(key.fields[0])))
    if key.expression is not None:
        return _of_column(batch, key, _computed(batch, key, key.expression))
    selected = _selected(batch, key)
    try:
        return key.codec.encode(selected)
    except InvalidTypeError as error:
        raise RecordError(_record_of_misfit(batch, selected, key), key.call_site) from error


def _record_of_misfit(batch: Batch, keys: list[Any], key: KeySelection) -> object:
    """The first record whose key does not fit the declared type."""
    for record, found in zip(batch.rows, keys, strict=True):
        try:
            key.codec.encode([found])
        except InvalidTypeError:
            return record
    return NO_RECORD


def _of_column(batch: Batch, key: KeySelection, column: pa.Array) -> KeyColumn:
    if column.null_count and not key.codec.takes_nulls:
        row = pc.index(column.is_null(), pa.scalar(True)).as_py()
        raise RecordError(batch.slice(row, row + 1).rows[0], key.call_site) from InvalidTypeError(
            f"the key {key.label} of key_by ({key.call_site}) is null: leave such records out with filter(...), "
            "or give them a key with coalesce(...)"
        )
    return key.codec.from_array(column)


def _computed(batch: Batch, key: KeySelection, expression: Bound) -> pa.Array:
    columns = batch.columns
    try:
        return evaluate((expression,), columns)[0]
    except EvaluationError as error:
        raise RecordError(batch.slice(error.row, error.row + 1).rows[0], key.call_site) from error


def _selected(batch: Batch, key: KeySelection) -> list[Any]:
    keys: list[Any] = []
    append, select = keys.append, key.selector
    row = None
    try:
        for row in batch.rows:
            append(select(row))
    except BaseException as error:
        raise RecordError(row, key.call_site) from error
    return keys


ROUTING_ROWS = 1 << 16
"""Rows routed at a time: a sort of this many one-byte partition numbers stays in the cache (measured)."""

COALESCE_ROWS = 8192
"""Batches smaller than this wait for more before they are sent: an envelope costs tens of microseconds."""


SAMPLED_ROWS = 16
"""Records that are made columns of to find out how large the others are."""

MAX_PORTION_BYTES = 64 << 20
"""Records that together have about this size are made columns of at a time."""


class EdgeSender:
    """Sends the records of one edge from one task.

    Args:
        edge: the edge.
        outbox: takes finished envelopes.
        summaries: gets the end of each channel.
        guard: is around everything that calls the user's code (key functions) or shows that a record does not fit its
            type, so that an error names the operator.

    Attributes:
        edge: as above.
        bytes_sent: how many were sent in the epoch.
        divert: takes records, ready to be sent by a sender of the same kind, while they have to wait for others.
    """

    def __init__(
        self,
        edge: PlannedEdge,
        outbox: Callable[[Envelope], None],
        summaries: SummaryBook,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.edge = edge
        self.bytes_sent = 0
        self.divert: Callable[[EdgeSender, Batch], None] | None = None
        self._outbox = outbox
        self._summaries = summaries
        self._guard = guard
        self._pending: list[Batch] = []
        self._pending_rows = 0
        self._sequences = [0] * edge.receivers.parallelism
        self._channel = 0
        self._piece = 0
        self._start = MIN_WATERMARK
        self._epoch = self._batches = 0

    def begin_channel(self, channel: int, piece: int, start: int, epoch: int = 0) -> None:
        """All that follows comes from this piece of this channel, in this epoch."""
        self._channel, self._piece, self._start = channel, piece, start
        self._epoch, self._batches = epoch, 0
        self._sequences = [0] * self.edge.receivers.parallelism

    def send(self, batch: Batch) -> None:
        """Send records; they may wait for more."""
        if self.divert is not None:
            self.divert(self, self._prepared(batch))
            return
        self._pending.append(batch)
        self._pending_rows += len(batch)
        if self._pending_rows >= COALESCE_ROWS:
            self.flush()

    def _prepared(self, batch: Batch) -> Batch:
        """The records with their keys found and their columns made.

        Errors about them name the operator that made them, which is this sender's.
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
        """The piece is over: say how it ended."""
        self.flush()
        self._summaries.add(
            self.edge,
            self._channel,
            self._piece,
            start=self._start,
            final=final,
            status=status,
            envelopes=self._sequences,
        )

    def _route(self, batch: Batch, batch_keys: KeyColumn | None) -> None:
        edge = self.edge
        sending = Sending(
            self._channel, edge.receivers, self._epoch, self._batches, self._piece, keys_travel=has_key(edge.key)
        )
        self._batches += 1
        parts = edge.partitioning.route(batch.without_rows(), batch_keys, sending)
        encoded, payload = None, b""
        for part in parts:
            sequence = self._sequences[part.target]
            self._sequences[part.target] = sequence + 1
            if part.batch is not encoded:  # what is broadcast is the same for all
                encoded, payload = part.batch, encode(part.batch, part.keys, edge.key)
            self.bytes_sent += len(payload)
            watermark = int(part.batch.watermarks[0])
            place = (edge.target_stage, part.target, self._piece, watermark, edge.id, self._channel, sequence)
            self._outbox(Envelope(*place, EnvelopeKind.DATA, payload))


def _parted(batch: Batch) -> Iterator[Batch]:
    """The records in portions of a size that may go into the envelopes of one routing step."""
    rows = rows_at_a_time(batch)
    for start in range(0, len(batch), rows):
        yield batch.slice(start, start + rows) if len(batch) > rows else batch


def rows_at_a_time(batch: Batch) -> int:
    """Return how many records may go into the envelopes of one routing step, so that none of them grows too large.

    Of records that are Python objects until they are sent, a few tell how large all are.
    """
    if batch.is_columnar:
        return _rows_within(MAX_CELL_BYTES, batch.columns.nbytes, len(batch), ROUTING_ROWS)
    if len(batch) <= 2 * SAMPLED_ROWS:
        return COALESCE_ROWS
    sample = batch.take(np.linspace(0, len(batch) - 1, SAMPLED_ROWS).astype(np.int64))
    if batch.type.arrow_type is None:
        return _rows_within(MAX_CELL_BYTES, len(dumps(sample.rows)), SAMPLED_ROWS, COALESCE_ROWS)
    return _rows_within(MAX_PORTION_BYTES, sample.columns.nbytes, SAMPLED_ROWS, COALESCE_ROWS)


def _rows_within(size: int, sampled: int, rows: int, most: int) -> int:
    """Return how many records go into ``size`` bytes when ``rows`` of them have ``sampled``; ``most`` at most."""
    return max(1, min(most, size // max(sampled // rows, 1)))
