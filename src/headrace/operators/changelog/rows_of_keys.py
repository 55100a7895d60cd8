"""``RowsOfKeys``: keyed state of rows, in an order that the operator determines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width, gather
from headrace.common.errors import StateMigrationError
from headrace.operators.base import OperatorContext
from headrace.state.evolution import OTHER_UID
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs.grouping import in_order
from headrace.state.runs.layout import HASH, KEY, LIVE, RETAINED_UNTIL, fields_of_rows
from headrace.state.sorted_table import TableLayout

Longs = npt.NDArray[np.int64]

_KIND: Final = "rows-of-keys"
_KIND_THAT_EXPIRES: Final = "rows-of-keys-that-expire"
_WORDS: Final = {"keys": "key type", "rows": "type of rows", "ttl": "time to live of state"}


@dataclass(frozen=True)
class StoredRows:
    """Rows of some keys.

    Attributes:
        of_keys: the position of each row's key, ascending.
        rows: the rows, those of a key in the order in which they were written.
    """

    of_keys: Longs
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.of_keys)


class RowsOfKeys:
    """The rows of each key, which are read and written together: a write replaces all rows of the key.

    With a time to live, rows expire so many milliseconds of processing time after their key was last written. The clock
    is that of epochs, so another attempt at an epoch finds the same rows.

    Args:
        context: the operator.
        name: the name of the store.
        what: the name of the rows in errors.
        codec: the codec of the keys.
        schema: the columns of the rows.
        ttl: the time to live in milliseconds; 0 for ever.
    """

    def __init__(
        self,
        context: OperatorContext,
        name: str,
        what: str,
        codec: KeyCodec,
        schema: pa.Schema,
        ttl: int = 0,
    ) -> None:
        self._ttl, self._now = ttl, 0
        self._row_schema = schema
        fields = [pa.field(HASH, pa.uint64()), pa.field(KEY, codec.arrow_type), pa.field(LIVE, pa.bool_())]
        fields += fields_of_rows(schema)
        if ttl:
            fields.append(pa.field(RETAINED_UNTIL, pa.int64()))
        self._schema = pa.schema(fields)
        about = {"keys": codec.to_json(), "rows": [str(field.type) for field in schema]}
        kind = _KIND_THAT_EXPIRES if ttl else _KIND
        layout = TableLayout(what, kind, self._schema, 2, about, _WORDS)
        self._table = KeySortedTable(context.state.store(name), layout, latest_only=True)

    def begin_epoch(self, processing_time: int) -> None:
        """Starts an epoch with the state that the last one left."""
        self._now = processing_time
        self._table.begin_epoch(processing_time if self._ttl else np.iinfo(np.int64).min)

    def find(self, keys: KeyColumn) -> StoredRows:
        """The rows of distinct keys, which are in the order of hash and key."""
        of_keys, found = self._table.find(keys)
        columns = found.columns[3 : 3 + len(self._row_schema)]
        if len(of_keys):
            is_live = fixed_width(found.column(LIVE)) != 0
            if not is_live.all():
                of_keys, mask = of_keys[is_live], pa.array(is_live)
                columns = [column.filter(mask) for column in columns]
        return StoredRows(of_keys, pa.RecordBatch.from_arrays(columns, schema=self._row_schema))

    def write(self, keys: KeyColumn, rows: StoredRows, gone: Longs) -> None:
        """Replaces the rows of keys.

        Args:
            keys: distinct keys, in the order of hash and key.
            rows: the rows of some of them.
            gone: the positions of stored keys that have no rows anymore.
        """
        of_keys, columns = rows.of_keys, list(rows.rows.columns)
        is_live = np.ones(len(of_keys), np.bool_)
        if len(gone):
            columns = [pa.concat_arrays([column, pa.nulls(len(gone), column.type)]) for column in columns]
            of_keys = np.concatenate((of_keys, gone))
            order = in_order(of_keys)
            is_live, of_keys = order < len(rows), of_keys[order]
            columns = [gather(column, order) for column in columns]
        if not len(of_keys):
            return
        written = keys.take(of_keys)
        arrays = [pa.array(written.hashes), written.values, pa.array(is_live), *columns]
        if self._ttl:
            arrays.append(pa.array(np.full(len(of_keys), self._now + self._ttl)))
        self._table.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema), self._watermark)

    def before(self) -> tuple[KeyColumn, pa.RecordBatch]:
        """All rows at the start of the epoch, with their keys."""
        found = self._table.stored()
        columns = found.columns[3 : 3 + len(self._row_schema)]
        keys = KeyColumn(found.column(KEY), fixed_width(found.column(HASH)))
        return keys, pa.RecordBatch.from_arrays(columns, schema=self._row_schema)

    def stored(self) -> tuple[KeyColumn, pa.RecordBatch]:
        """All rows with their keys; those written in this epoch are flushed to state first."""
        self.end_epoch()
        return self.before()

    def end_epoch(self) -> None:
        """Flushes the writes of the epoch to state."""
        self._table.end_epoch(self._watermark)

    @property
    def _watermark(self) -> int:
        return self._now if self._ttl else int(np.iinfo(np.int64).min)


def check_stores(context: OperatorContext, names: Sequence[str]) -> None:
    """Refuse state of another kind of operator.

    Raises:
        StateMigrationError: when there is some.
    """
    others = [name for name in context.state.stored() if name not in names]
    if others:
        raise StateMigrationError(f"there is state of another kind of operator ({', '.join(others)}); {OTHER_UID}")


register_key_sorted_merger(_KIND, latest_only=True)
register_key_sorted_merger(_KIND_THAT_EXPIRES, latest_only=True)
