"""What windows of fixed ends hold of two inputs: a table for each, so that a record takes no room for the other one's.

The operator sees tagged records. A window that fires late, record by record, shows those of the left input first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.typeinfo import type_from_json
from headrace.operators.arrays import gather
from headrace.operators.join.interval import LEFT, RIGHT, SIDES
from headrace.operators.join.tagged import is_tagged, tagged_types, untagged
from headrace.operators.window.general.ordered_contents import OrderedContents
from headrace.operators.window.general.ordered_elements import OrderedElements, elements_held_as, keys_of_window
from headrace.operators.window.general.stored_elements import ColumnPieces
from headrace.operators.window.stores import ELEMENTS_KIND, LEFT_STORE, RIGHT_STORE, STORE, check_has_tables_of
from headrace.state.runs.layout import KIND, TYPES, VALUE
from headrace.state.runs.ordered import described, floor_of, rest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import OperatorContext
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.general.ordered_contents import KeysOfWindow
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys import KeyColumn
    from headrace.windowing.intervals import Assignment, RegularWindows

    Longs = npt.NDArray[np.int64]

_STORES = (LEFT_STORE, RIGHT_STORE)


class ElementsOfSides(OrderedContents):
    """All records of both inputs, in the order in which those of each came.

    Args:
        context: the operator.
        windows: the windows.
        type_: the type of tagged records.
        lateness: how long windows are kept after their ends, in milliseconds.
    """

    def __init__(
        self, context: OperatorContext, windows: RegularWindows, type_: TypeInformation, lateness: int
    ) -> None:
        _set_apart(context)
        check_has_tables_of(context, *_STORES)
        self._types, renamed = tagged_types(type_), context.renamed_fields
        self._sides = [
            OrderedElements(context, elements_held_as(of_side, renamed.of_parts({"": name}), store), windows, lateness)
            for of_side, name, store in zip(self._types, SIDES, _STORES, strict=True)
        ]

    def begin_epoch(self) -> None:
        for side in self._sides:
            side.begin_epoch()

    def end_epoch(self, watermark: int) -> None:
        for side in self._sides:
            side.end_epoch(watermark)

    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        is_left, *records = untagged(batch.as_array())
        of_left = is_left[pairs.records]
        for side, values, is_own in zip(self._sides, records, (of_left, ~of_left), strict=True):
            own = pairs.where(is_own)
            if len(own.ends):
                side.add_columns(own.ends, batch.keys.take(own.records), gather(values, own.records))

    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        for side in self._sides:
            side.recall(ends, keys)

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        is_left, left, right = element
        self._sides[LEFT if is_left else RIGHT].add(namespace, left if is_left else right, timestamp)

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any]:
        lefts, rights = (side.elements(namespace, window) for side in self._sides)
        return [*((True, left, None) for left in lefts), *((False, None, right) for right in rights)]

    def ends_between(self, after: int, upto: int) -> set[int]:
        return set().union(*(side.ends_between(after, upto) for side in self._sides))

    def of_all_keys(self, end: int) -> KeysOfWindow:
        lefts, rights = (side.rows_of(end) for side in self._sides)
        return keys_of_window([*lefts, *rights], RecordsOfSides(*self._pieces(lefts, rights)))

    def _pieces(self, *sides: Sequence[pa.RecordBatch]) -> list[ColumnPieces]:
        """The records of each side."""
        return [
            ColumnPieces(type_, [batch.column(VALUE) for batch in rows] or [pa.array([], type_.storage_type)])
            for type_, rows in zip(self._types, sides, strict=True)
        ]

    def forget(self, watermark: int) -> None:
        for side in self._sides:
            side.forget(watermark)


@dataclass(frozen=True)
class RecordsOfSides:
    """The records of two inputs in rows that are numbered through: first all of the left one.

    Attributes:
        left: those of the left input.
        right: those of the right input.
    """

    left: ColumnPieces
    right: ColumnPieces

    def values(self, rows: Longs) -> list[Any]:
        """The tagged records in these rows."""
        is_left = rows < len(self.left)
        lefts = iter(self.left.values(rows[is_left]))
        rights = iter(self.right.values(rows[~is_left] - len(self.left)))
        return [(True, next(lefts), None) if is_own else (False, None, next(rights)) for is_own in is_left.tolist()]


def _set_apart(context: OperatorContext) -> None:
    """Brings what is stored as tagged records, with room for those of both inputs, into the tables of the sides."""
    store = context.state.store(STORE)
    for run in store.runs:
        stored = run.meta.get(TYPES)
        type_ = None if stored is None else type_from_json(stored)
        if run.meta.get(KIND) != ELEMENTS_KIND or type_ is None or not is_tagged(type_):
            continue  # of windows over one stream: refused
        rows = rest_of(run, floor_of(run))
        place = rows.schema.get_field_index(VALUE)
        is_left, *records = untagged(rows.column(VALUE))
        for name, own_type, values, is_own in zip(
            _STORES, tagged_types(type_), records, (is_left, ~is_left), strict=True
        ):
            own = rows.set_column(place, VALUE, values).filter(pa.array(is_own))
            if own.num_rows:
                meta = {**run.meta, TYPES: own_type.to_json()}
                context.state.store(name).append(own, described(meta, own))
        store.drop(run)
