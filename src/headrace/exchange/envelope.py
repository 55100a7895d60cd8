"""Envelopes: the rows that Spark moves between stages, each with a whole batch inside."""

from __future__ import annotations

import enum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Kind(enum.IntEnum):
    """What an envelope carries."""

    CONTEXT = 0
    SUMMARY = 1
    DATA = 2
    REPORT = 3
    FAILURE = 4
    STORED = 5
    """Data as well, with a reference to its payload in place of that."""


class Envelope(NamedTuple):
    """One row of the exchange.

    Attributes:
        stage: the stage it is for; one past the last stage is the driver.
        partition: the task of that stage.
        piece: first sort key: -1 for what a task needs before any data, then the number of the piece of the split.
        watermark: second sort key: the watermark in force at the first record, as far as the sender knows.
        edge: the edge of the plan; of no meaning where it carries no records.
        channel: the split (stage 0) or the subtask that sent it; for summaries, always that subtask.
        sequence: number within channel and target, in sending order.
        kind: what it carries, a :class:`Kind`.
        payload: the content.
    """

    stage: int
    partition: int
    piece: int
    watermark: int
    edge: int
    channel: int
    sequence: int
    kind: int
    payload: bytes | pa.Buffer


SCHEMA = pa.schema(
    [
        ("stage", pa.int32()),
        ("partition", pa.int32()),
        ("piece", pa.int32()),
        ("watermark", pa.int64()),
        ("edge", pa.int32()),
        ("channel", pa.int32()),
        ("sequence", pa.int64()),
        ("kind", pa.int32()),
        ("payload", pa.binary()),
    ]
)

SORT_COLUMNS = ("piece", "watermark", "edge", "channel", "sequence")
"""The order in which a task receives its envelopes."""

MAX_CELL_BYTES = 4 << 20
"""The largest payload that an envelope should have."""


def sort_key(envelope: Envelope) -> tuple[int, int, int, int, int]:
    """The key of :data:`SORT_COLUMNS`."""
    return (envelope.piece, envelope.watermark, envelope.edge, envelope.channel, envelope.sequence)


def to_record_batch(envelopes: Sequence[Envelope]) -> pa.RecordBatch:
    """Envelopes as one Arrow batch under :data:`SCHEMA`."""
    columns = list(zip(*envelopes, strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns[:-1], SCHEMA, strict=False)]
    arrays.append(_binary_array(columns[-1]))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def from_record_batch(batch: pa.RecordBatch) -> Iterator[Envelope]:
    """The envelopes of an Arrow batch; payloads stay where they are."""
    plain = [batch.column(i).to_numpy(zero_copy_only=False).tolist() for i in range(len(SCHEMA) - 1)]
    payloads = (cell.as_buffer() for cell in batch.column(len(SCHEMA) - 1))
    yield from map(Envelope._make, zip(*plain, payloads, strict=True))


def _binary_array(payloads: Sequence[bytes | pa.Buffer]) -> pa.Array:
    """The payloads as a column, each copied once."""
    content = b"".join(payloads)
    offsets = list(accumulate(map(len, payloads), initial=0))
    buffers = [None, pa.array(offsets, pa.int32()).buffers()[1], pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(payloads), buffers)
