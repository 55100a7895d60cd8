"""Rolling folds of a keyed stream: ``reduce``, ``sum``, ``min``, ``max``, ``min_by``, ``max_by``.

In streaming mode each record gives one output, the new value; in batch mode each key gives one, at the end of input.
"""

import copy
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, make_row
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext
from headrace.operators.functions import FunctionOperator
from headrace.operators.user_code import check_none, user_error
from headrace.state.descriptors import ValueStateDescriptor

Fold = Callable[[Any, Any], Any]
"""From the value so far and a record to the new value."""

_BATCH_TIMER = MAX_WATERMARK
"""In batch mode a timer at the end of time remembers which keys there are."""


def rolling_aggregate(aggregation: str, field: str | int | None, type_: TypeInformation) -> Fold:
    """A built-in rolling aggregate.

    ``sum``, ``min`` and ``max`` change one field of the first record of the key; ``min_by`` and ``max_by`` keep a whole
    record, the first one among equals (Flink's rules).

    Args:
        aggregation: which one.
        field: name or position of the field; None for records that are plain values.
        type_: the type of the records.
    """
    get, put = accessors(field, type_)
    if aggregation.endswith("_by"):
        better = _BETTER[aggregation.removesuffix("_by")]
        return lambda held, row: row if better(get(row), get(held)) else held
    combine = _COMBINE[aggregation]
    return lambda held, row: put(held, combine(get(held), get(row)))


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda held, value: held + value,
    "min": lambda held, value: value if value < held else held,
    "max": lambda held, value: value if value > held else held,
}

_BETTER: dict[str, Callable[[Any, Any], bool]] = {
    "min": lambda value, held: value < held,
    "max": lambda value, held: value > held,
}


def accessors(
    field: str | int | None, type_: TypeInformation
) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    """Reading a field of a record, and a copy of a record with another value in it."""
    if field is None or (not type_.is_composite and type_.arrow_type is not None):
        return (lambda row: row), (lambda _, value: value)
    if type_.is_composite:
        index = type_.field_index(field)
        name = type_.field_names[index]
    else:
        index, name = (field, str(field)) if isinstance(field, int) else (-1, field)
    return (lambda row: _get(row, index, name)), (lambda row, value: _put(row, index, name, value))


def _get(row: object, index: int, name: str) -> Any:
    if isinstance(row, tuple | list | Row) and index >= 0:
        return row[index]
    if isinstance(row, int | float | Decimal):  # an untyped stream of plain numbers, as in PyFlink
        return row
    return row[name] if isinstance(row, dict) else getattr(row, name)


def _put(row: object, index: int, name: str, value: object) -> Any:
    if isinstance(row, dict):
        return {**row, name: value}
    if isinstance(row, int | float | Decimal):
        return value
    if isinstance(row, list):
        return [*row[:index], value, *row[index + 1 :]]
    if type(row) is tuple:
        return (*row[:index], value, *row[index + 1 :])
    return _put_into_copy(row, index, name, value)


def _put_into_copy(row: Any, index: int, name: str, value: Any) -> Any:
    """The same for objects: rows, and instances of the user's classes, frozen or not."""
    if isinstance(row, Row):
        changed = make_row(row._fields, list(row), row.get_row_kind())
        changed[index if index >= 0 else name] = value
        return changed
    if isinstance(row, tuple) and hasattr(row, "_replace"):  # a named one
        return row._replace(**{name: value})
    changed = copy.copy(row)
    object.__setattr__(changed, name, value)
    return changed


class RollingOperator(KeyedOperator, FunctionOperator):
    """Keeps one value for each key. None is a value like any other, of which a mark is kept: as state it would be none.

    Args:
        fold: the fold.
        type_: the type of the records, and of the value.
        function: the function of the user that the fold is of, if there is one.
        is_batch: whether only the last value of each key is emitted.
    """

    def __init__(self, fold: Fold, type_: TypeInformation, function: object = None, *, is_batch: bool) -> None:
        super().__init__(function)
        self._fold = self.maker = fold
        self._type = type_
        self._is_batch = is_batch

    def restore_state(self, context: OperatorContext) -> None:
        self._keyed = context.state.keyed
        self._timers = context.state.timers
        values = ValueStateDescriptor("value", self._type)
        values.keep_for_operator("what is kept of each key", context.renamed_fields)
        self._state = self._keyed.state(values)
        self._is_none = self._keyed.state(ValueStateDescriptor("none", Types.BOOLEAN()))
        self._timestamp = self._keyed.state(ValueStateDescriptor("timestamp", int))

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        values: list[Any] = []
        backend, state, fold = self._keyed, self._state, self._fold
        row = None
        try:
            for row, entry in zip(batch.rows, backend.bind(batch.keys), strict=True):
                backend.current = entry
                held = state.value()
                value = self._fold_without_value(row) if held is None else fold(held, row)
                state.update(value)
                if value is None:
                    self._keep_none()
                values.append(value)
        except BaseException as error:
            raise user_error(error, self.context, row, function=fold) from error
        if self._is_batch:
            self._remember_keys(batch)
        else:
            self.output.emit(Batch(self._type, batch.timestamps, batch.watermarks, rows=values))

    def advance_watermark(self, watermark: int) -> None:
        if self._is_batch and watermark == MAX_WATERMARK:
            self._emit_all()
        self._watermark = watermark
        super().advance_watermark(watermark)

    def _fold_without_value(self, row: object) -> Any:
        """The new value of a key whose value is None, or that has none."""
        if not self._is_none.value():
            return row
        self._is_none.clear()
        return self._fold(None, row)

    def _keep_none(self) -> None:
        check_none(self._type, "reduce", self._fold)
        self._is_none.update(True)

    def _remember_keys(self, batch: KeyedBatch) -> None:
        """The result carries the timestamp of the key's last record."""
        for entry, timestamp in zip(self._keyed.bind(batch.keys), batch.timestamps.tolist(), strict=True):
            self._keyed.current = entry
            self._timestamp.update(timestamp)
            self._timers.event.register(_BATCH_TIMER)

    def _emit_all(self) -> None:
        rows: list[Any] = []
        timestamps: list[int] = []
        for timer in self._timers.event.pop_due(MAX_WATERMARK):
            self._keyed.current = timer.entry
            rows.append(self._state.value())
            timestamps.append(cast("int", self._timestamp.value()))
        if rows:
            watermarks = [self._watermark] * len(rows)
            self.output.emit(Batch.of_rows(self._type, rows, timestamps, watermarks))
