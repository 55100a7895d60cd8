"""How a batch travels inside an envelope.

A payload is a small header and one Arrow message: the columns of the records, their timestamps, and their keys where a
key is not a column anyway. Watermarks rise rarely, so they travel as runs. What has no columns travels as one pickle.
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.operators.keyed import KeyedBatch
from headrace.state.hashing import hash_array
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.nodes import KeySelection

_LENGTHS = struct.Struct("<qqq")
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
    ends, values = _runs(batch.watermarks)
    body = _to_arrow(batch, keys if _has_key(key) else None).serialize()
    return b"".join(
        (_LENGTHS.pack(len(batch), len(ends), body.size), ends.tobytes(), values.tobytes(), memoryview(body))
    )


def decode(payload: bytes | pa.Buffer, record_type: TypeInformation, key: KeySelection | None) -> Batch:
    """The batch that :func:`encode` made bytes of; a :class:`KeyedBatch` for a keyed edge."""
    view = memoryview(payload)
    records, runs, size = _LENGTHS.unpack_from(view)
    offset = _LENGTHS.size
    ends = np.frombuffer(view, np.int64, runs, offset)
    values = np.frombuffer(view, np.int64, runs, offset + 8 * runs)
    body = pa.py_buffer(view[offset + 16 * runs : offset + 16 * runs + size])
    has_key = _has_key(key)
    table = pa.ipc.read_record_batch(body, _schema(record_type, key if has_key else None))
    watermarks = np.repeat(values, np.diff(ends, prepend=0))
    return _from_arrow(table, record_type, records, watermarks, key, has_key)


def _runs(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where runs of equal values end, and their values."""
    changes = np.flatnonzero(values[1:] != values[:-1])
    ends = np.append(changes + 1, len(values)).astype(np.int64)
    return ends, values[ends - 1]


def _is_column(key: KeySelection | None) -> bool:
    """Whether the key of a record is a column of it, so that the receiver can look there."""
    return key is not None and key.fields is not None and key.is_single and len(key.fields) == 1


def _has_key(key: KeySelection | None) -> bool:
    """Whether keys travel beside the records."""
    return key is not None and not key.only_routes and not _is_column(key)


def _schema(record_type: TypeInformation, key: KeySelection | None) -> pa.Schema:
    fields = [pa.field(_TIMESTAMPS, pa.int64())]
    if key is not None:
        fields.append(pa.field(_KEY, key.codec.arrow_type))
    if record_type.arrow_type is None:
        return pa.schema([*fields, pa.field(_ROWS, pa.binary())])
    return pa.schema([*fields, *layout_of(record_type).schema])


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
        return bytes(cloudpickle.dumps(value, protocol=5))


def _from_arrow(
    table: pa.RecordBatch,
    record_type: TypeInformation,
    records: int,
    watermarks: npt.NDArray[np.int64],
    key: KeySelection | None,
    has_key: bool,
) -> Batch:
    timestamps = table.column(0).to_numpy()
    first = 2 if has_key else 1
    if record_type.arrow_type is None:
        rows = pickle.loads(table.column(first)[0].as_buffer()) if records else []
        batch = Batch(record_type, timestamps, watermarks, rows=rows)
    else:
        columns = pa.RecordBatch.from_arrays(table.columns[first:], schema=layout_of(record_type).schema)
        batch = Batch(record_type, timestamps, watermarks, columns=columns)
    if key is None or key.only_routes:
        return batch
    if has_key:
        values = table.column(1)
        return KeyedBatch.of(batch, KeyColumn(values, hash_array(values)))
    assert key.fields is not None
    return KeyedBatch.of(batch, key.codec.from_array(batch.columns.column(record_type.field_index(key.fields[0]))))
