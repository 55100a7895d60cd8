"""Finding the key of each record: from columns where it is a field or an expression, else by the user's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.expressions import evaluate
from headrace.operators.keyed import KeyedBatch
from headrace.operators.user_code import NO_RECORD, RecordError

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.expressions import Bound
    from headrace.graph.partitioning import KeySelection
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


def _record_of_misfit(batch: Batch, keys: list[Any], key: KeySelection) -> Any:
    """The first record whose key does not fit the declared type."""
    for record, found in zip(batch.rows, keys, strict=True):
        try:
            key.codec.encode([found])
        except InvalidTypeError:
            return record
    return NO_RECORD


def _of_column(batch: Batch, key: KeySelection, column: pa.Array) -> KeyColumn:
    if column.null_count:
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
