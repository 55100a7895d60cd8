"""Envelopes: the rows that Spark moves between stages, each with a batch inside, or with summaries of channels."""

import enum
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.constants import MIN_WATERMARK
from headrace.plan.job_plan import PlannedEdge


class EnvelopeKind(enum.IntEnum):
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
        kind: what it carries, a :class:`EnvelopeKind`.
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


class ChannelStatus(enum.Enum):
    """Whether a channel counts in the minimum of watermarks."""

    ACTIVE = 0
    IDLE = 1
    FINISHED = 2


class ChannelSummary(NamedTuple):
    """One piece of one channel, as its sender saw it.

    Attributes:
        edge: the edge of the plan.
        channel: the split or the sending subtask.
        piece: its number, from 0.
        start: the watermark before the epoch's first record (the same in every piece).
        final: the watermark after the piece, as far as the piece alone tells.
        status: the status at the end of the epoch.
        envelopes: how many data envelopes the receiver gets from this piece.
    """

    edge: int
    channel: int
    piece: int
    start: int
    final: int
    status: ChannelStatus
    envelopes: int


_FIELDS: Final = len(ChannelSummary._fields)
"""Inside an envelope a summary is so many 64-bit integers, in the order of its fields."""

_STATUSES: Final = tuple(ChannelStatus)


class SummaryBook:
    """Collects the summaries of everything that one task sends: each receiving task gets its own in one envelope.

    Args:
        subtask: the number of the sending task.
    """

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask
        self._pages: dict[tuple[int, int], list[npt.NDArray[np.int64]]] = {}

    def add(
        self,
        edge: PlannedEdge,
        channel: int,
        piece: int,
        *,
        start: int,
        final: int,
        status: ChannelStatus,
        envelopes: Sequence[int],
    ) -> None:
        """A piece of a channel is over; ``envelopes`` says for each receiver how many it was sent."""
        page = np.empty((len(envelopes), _FIELDS), np.int64)
        page[:, :-1] = (edge.id, channel, piece, start, final, status.value)
        page[:, -1] = envelopes
        self._pages.setdefault((edge.target_stage, len(envelopes)), []).append(page)

    def seal(self) -> Iterator[Envelope]:
        """Everything so far, which comes before any record; the book is empty then."""
        pages, self._pages = self._pages, {}
        for (stage, receivers), summaries in pages.items():
            for target, own in enumerate(np.concatenate(summaries, axis=1)):
                yield Envelope(
                    stage, target, -1, MIN_WATERMARK, 0, self._subtask, receivers, EnvelopeKind.SUMMARY, own.tobytes()
                )


def summaries_of(payload: bytes | pa.Buffer) -> Iterator[ChannelSummary]:
    """What :meth:`SummaryBook.seal` has put into an envelope."""
    summaries = np.frombuffer(payload, np.int64).reshape(-1, _FIELDS)
    for edge, channel, piece, start, final, status, envelopes in summaries.tolist():
        yield ChannelSummary(edge, channel, piece, start, final, _STATUSES[status], envelopes)
