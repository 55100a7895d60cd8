"""Envelopes: the rows that Spark moves between stages, each with a batch inside, or with summaries of channels.

The payload of a batch is a small header and one Arrow message: the columns of the records, their timestamps, and their
keys where a key is not a column anyway. Watermarks rise rarely, so they travel as runs. What has no columns travels as
one pickle. What records do in a changelog travels as one byte each where some are no insertions, else not at all.
"""

import enum
import pickle
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch, joined_kinds
from headrace.common.constants import MIN_WATERMARK
from headrace.common.pickling import pickle_by_value
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.composite import schema_of
from headrace.graph.partitioning import KeySelection
from headrace.operators.base import KeyedBatch
from headrace.plan.job_plan import PlannedEdge
from headrace.state.keys import KeyColumn

Numbers = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.int8]


class EnvelopeKind(enum.IntEnum):
    """The kind of content of an envelope."""

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


sort_key: Final = attrgetter(*SORT_COLUMNS)
"""The key of an envelope in that order."""


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
    """The status of a channel; only an active one counts in the minimum of watermarks."""

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
        final: the watermark after the piece, as far as the piece alone says.
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
    """Read the summaries that :meth:`SummaryBook.seal` has put into an envelope."""
    summaries = np.frombuffer(payload, np.int64).reshape(-1, _FIELDS)
    for edge, channel, piece, start, final, status, envelopes in summaries.tolist():
        yield ChannelSummary(edge, channel, piece, start, final, _STATUSES[status], envelopes)


_LENGTHS = struct.Struct("<qqq")
"""The number of runs of watermarks, the size of the Arrow message, and the number of kinds."""

_TIMESTAMPS = "__timestamp"
_KEY = "__key"
_ROWS = "__rows"


def encode(batch: Batch, keys: KeyColumn | None, key: KeySelection | None) -> bytes:
    """A batch as bytes.

    Args:
        batch: the records; a type with columns is sent as columns, any other as one pickle.
        keys: the records' keys, for a keyed edge.
        key: how the receiver will find the keys; when they are one plain column, they are not sent twice.
    """
    watermarks = batch.watermarks  # as the lengths of runs of equal ones, and these
    bounds = np.concatenate(((0,), np.flatnonzero(watermarks[1:] != watermarks[:-1]) + 1, (len(watermarks),)))
    lengths, values = np.diff(bounds).astype(np.int64), watermarks[bounds[:-1]]
    body = _to_arrow(batch, keys if has_key(key) else None).serialize()
    kinds = b"" if batch.kinds_beside_columns is None else batch.kinds_beside_columns.tobytes()
    head = _LENGTHS.pack(len(lengths), body.size, len(kinds))
    return b"".join((head, lengths.tobytes(), values.tobytes(), memoryview(body), kinds))


class PayloadDecoder:
    """Reads what :func:`encode` wrote of one edge.

    Args:
        record_type: the type of the records.
        key: that of :func:`encode`.
    """

    def __init__(self, record_type: TypeInformation, key: KeySelection | None) -> None:
        self._type = record_type
        self._key = key
        self._has_key = has_key(key)
        fields = [pa.field(_TIMESTAMPS, pa.int64())]
        if self._has_key:
            assert key is not None
            fields.append(pa.field(_KEY, key.codec.arrow_type))
        columns = [pa.field(_ROWS, pa.binary())] if record_type.arrow_type is None else list(schema_of(record_type))
        self._schema = pa.schema(fields + columns)
        self._columns = pa.schema(columns)

    def decode(self, payloads: Sequence[bytes | pa.Buffer]) -> tuple[Batch, list[int]]:
        """The records of several payloads (at least one) as one batch, and how many are of each payload.

        For a keyed edge the batch is a :class:`KeyedBatch`.
        """
        tables, lengths, values, kinds = zip(*map(self._part, payloads), strict=True)
        counts = list(map(len, tables))
        watermarks = np.repeat(np.concatenate(values), np.concatenate(lengths))
        return self._batch(tables, watermarks, joined_kinds(list(zip(counts, kinds, strict=True)))), counts

    def _part(self, payload: bytes | pa.Buffer) -> tuple[pa.RecordBatch, Numbers, Numbers, Kinds | None]:
        """The columns; the lengths of runs of records that meet the same watermark, and these; the kinds of changes."""
        view = memoryview(payload)
        runs, size, changes = _LENGTHS.unpack_from(view)
        offset = _LENGTHS.size
        lengths = np.frombuffer(view, np.int64, runs, offset)
        values = np.frombuffer(view, np.int64, runs, offset + 8 * runs)
        end = offset + 16 * runs + size
        body = pa.py_buffer(view[end - size : end])
        kinds = np.frombuffer(view, np.int8, changes, end) if changes else None
        return pa.ipc.read_record_batch(body, self._schema), lengths, values, kinds

    def _batch(self, tables: Sequence[pa.RecordBatch], watermarks: Numbers, kinds: Kinds | None) -> Batch:
        table = tables[0] if len(tables) == 1 else pa.concat_batches(tables)
        timestamps = table.column(0).to_numpy()
        first = 2 if self._has_key else 1
        if self._type.arrow_type is None:
            rows = [row for each in tables for row in pickle.loads(each.column(first)[0].as_buffer())]
            batch = Batch(self._type, timestamps, watermarks, rows=rows)
        else:
            columns = pa.RecordBatch.from_arrays(table.columns[first:], schema=self._columns)
            batch = Batch(self._type, timestamps, watermarks, columns=columns, kinds=kinds)
        key = self._key
        if key is None or key.only_routes:
            return batch
        if self._has_key:
            return KeyedBatch.of(batch, KeyColumn.of(table.column(1)))
        assert key.fields is not None
        return KeyedBatch.of(batch, key.codec.from_array(batch.columns.column(self._type.field_index(key.fields[0]))))


def has_key(key: KeySelection | None) -> bool:
    """Return whether keys travel beside the records; the receiver looks into the records where the key is a column."""
    if key is None or key.only_routes:
        return False
    return key.fields is None or not key.is_single or len(key.fields) != 1


def _to_arrow(batch: Batch, keys: KeyColumn | None) -> pa.RecordBatch:
    arrays: list[pa.Array] = [pa.array(batch.timestamps)]
    names = [_TIMESTAMPS]
    if keys is not None:
        arrays.append(keys.values)
        names.append(_KEY)
    if batch.type.arrow_type is None:
        arrays.append(_pickled(batch.rows))
        names.append(_ROWS)
    else:
        columns = batch.columns
        arrays.extend(columns.columns)
        names.extend(columns.schema.names)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _pickled(rows: list[Any]) -> pa.Array:
    """All rows as one pickle in the first cell: a pickle for each record would cost many times as much."""
    cells: list[bytes | None] = [None] * len(rows)
    cells[0] = dumps(rows)
    return pa.array(cells, pa.binary())


def dumps(value: object) -> bytes:
    """A pickle; classes of the user's main program, which plain pickle cannot name elsewhere, travel by value."""
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return pickle_by_value(value)
