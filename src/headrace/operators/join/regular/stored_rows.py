"""``StoredSide``: the rows of one input of a regular join, in state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import OperatorContext
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs.layout import HASH, KEY, LIVE, RETAINED_UNTIL, fields_of_rows
from headrace.state.sorted_table import TableLayout

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Uniqueness(Enum):
    """The uniqueness of an input's rows with one join key."""

    ONE_ROW = "one row"
    """At most one row: the join key contains a unique key."""
    UNIQUE_KEY = "unique key"
    """Rows differ in the columns of a unique key."""
    NONE = "none"
    """Rows may be equal."""


@dataclass(frozen=True, slots=True)
class SideState:
    """How the rows of one input are kept.

    Attributes:
        uniqueness: the uniqueness of rows with one join key.
        unique_key: the positions of the columns of the unique key.
        ttl: the time to live of a row after it was last written, in milliseconds of processing time; 0 for ever.
    """

    uniqueness: Uniqueness = Uniqueness.NONE
    unique_key: tuple[int, ...] = ()
    ttl: int = 0


_KIND: Final = "regular-join"
_KIND_THAT_EXPIRES: Final = "regular-join-that-expires"
_NUMBER: Final = "number"
_PARTNERS: Final = "partners"
_WORDS: Final = {"keys": "key type", "rows": "type of rows", "state": "unique key", "partners": "kind of join"}

register_key_sorted_merger(_KIND, replaces_rows=True)
register_key_sorted_merger(_KIND_THAT_EXPIRES, replaces_rows=True)


@dataclass(frozen=True)
class FoundRows:
    """Stored rows of some keys.

    Attributes:
        of_keys: the position of each row's key, ascending.
        numbers: the number of each row among those of its key, ascending.
        partners: the number of matches of each in the other input; zeros if they are not counted.
        rows: the rows.
    """

    of_keys: Longs
    numbers: Longs
    partners: Longs
    rows: pa.RecordBatch


class StoredSide:
    """The rows of one input in one task, each by its key and a number, and with the number of its matches.

    Args:
        context: the operator.
        name: the name of the store.
        codec: the codec of the keys.
        schema: the columns of the rows.
        state: how they are kept.
        counts_partners: whether the matches of each row are counted.
    """

    def __init__(
        self,
        context: OperatorContext,
        name: str,
        codec: KeyCodec,
        schema: pa.Schema,
        state: SideState,
        *,
        counts_partners: bool,
    ) -> None:
        self._ttl, self._now = state.ttl, MIN_WATERMARK
        self._row_schema, self._counts_partners = schema, counts_partners
        fields = [pa.field(HASH, pa.uint64()), pa.field(KEY, codec.arrow_type), pa.field(_NUMBER, pa.int64())]
        fields += [pa.field(LIVE, pa.bool_())]
        fields += [pa.field(_PARTNERS, pa.int64())] if counts_partners else []
        self._first = len(fields)
        fields += fields_of_rows(schema)
        fields += [pa.field(RETAINED_UNTIL, pa.int64())] if state.ttl else []
        self._schema = pa.schema(fields)
        about: dict[str, Any] = {
            "keys": codec.to_json(),
            "rows": [str(field.type) for field in schema],
            "state": [state.uniqueness.value, *state.unique_key],
            "partners": counts_partners,
        }
        kind = _KIND_THAT_EXPIRES if state.ttl else _KIND
        layout = TableLayout("the rows of a join", kind, self._schema, 3, about, _WORDS)
        self._table = KeySortedTable(context.state.store(name), layout, replaces_rows=True)

    def begin_epoch(self, processing_time: int) -> None:
        """Starts an epoch with the state that the last one left."""
        self._now = processing_time if self._ttl else MIN_WATERMARK
        self._table.begin_epoch(self._now)

    def find(self, keys: KeyColumn) -> FoundRows:
        """The rows of distinct keys, which are in the order of hash and key."""
        of_keys, found = self._table.find(keys)
        columns = found.columns[self._first : self._first + len(self._row_schema)]
        partners = fixed_width(found.column(4)) if self._counts_partners else np.zeros(len(of_keys), np.int64)
        rows = pa.RecordBatch.from_arrays(columns, schema=self._row_schema)
        return FoundRows(of_keys, fixed_width(found.column(2)), partners, rows)

    def write(self, keys: KeyColumn, found: FoundRows, is_live: Mask) -> None:
        """Writes rows, in the order of their keys and numbers; those that are not live are deleted.

        Args:
            keys: distinct keys, in the order of hash and key.
            found: the rows of some of them.
            is_live: which rows are live.
        """
        written = keys.take(found.of_keys)
        arrays: list[pa.Array] = [pa.array(written.hashes), written.values, pa.array(found.numbers), pa.array(is_live)]
        arrays += [pa.array(found.partners)] if self._counts_partners else []
        arrays += found.rows.columns
        arrays += [pa.array(np.full(len(is_live), self._now + self._ttl))] if self._ttl else []
        self._table.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema), self._now)

    def end_epoch(self) -> None:
        """Flushes the writes of the epoch to state."""
        self._table.end_epoch(self._now)


def no_rows(schema: pa.Schema) -> FoundRows:
    """No rows of any key."""
    nothing = np.empty(0, np.int64)
    return FoundRows(nothing, nothing, nothing, pa.RecordBatch.from_pylist([], schema))
