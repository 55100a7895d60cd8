"""Finding the key of each record: from columns where it is a field or an expression, else by the user's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.errors import EvaluationError
from headrace.expressions import evaluate
from headrace.operators.keyed import KeyedBatch

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.expressions import Bound
    from headrace.graph.nodes import KeySelection
    from headrace.state.keys import KeyColumn


class KeyFunctionError(Exception):
    """The user's key function raised; the cause says what.

    Attributes:
        record: the record that it was called with.
    """

    def __init__(self, record: Any) -> None:
        super().__init__("the key function failed")
        self.record = record


def keys_of(batch: Batch, key: KeySelection) -> KeyColumn:
    """The keys of a batch.

    Raises:
        InvalidTypeError: when a key does not fit the declared key type.
        KeyFunctionError: when the user's key function raises, or an expression has no value.
    """
    if key.is_attached:
        assert isinstance(batch, KeyedBatch)
        return batch.keys
    # Taken from the columns, as the receiver does: rows that are not sent yet may have their fields in another order.
    if key.fields is not None and key.is_single and batch.type.is_composite:
        return key.codec.from_array(batch.columns.column(batch.type.field_index(key.fields[0])))
    if key.expression is not None:
        return key.codec.from_array(_computed(batch, key.expression))
    return key.codec.encode(_selected(batch, key))


def _computed(batch: Batch, expression: Bound) -> pa.Array:
    columns = batch.columns
    try:
        return evaluate((expression,), columns)[0]
    except EvaluationError as error:
        raise KeyFunctionError(batch.slice(error.row, error.row + 1).rows[0]) from error


def _selected(batch: Batch, key: KeySelection) -> list[Any]:
    keys: list[Any] = []
    append, select = keys.append, key.selector
    row = None
    try:
        for row in batch.rows:
            append(select(row))
    except BaseException as error:
        raise KeyFunctionError(row) from error
    return keys
