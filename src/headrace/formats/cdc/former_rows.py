"""Rows as they were before updates, of messages that tell only which fields have changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.cdc.images import Operation
from headrace.formats.json.documents import document_of

if TYPE_CHECKING:
    import numpy.typing as npt


def told_nulls(
    messages: pa.Array, rows: npt.NDArray[Any], place: npt.NDArray[Any], operations: npt.NDArray[Any]
) -> Iterator[tuple[int, list[str]]]:
    """Which rows had nulls before an update, and in which fields.

    Columns do not tell a field that was null from one that is not there, as it has not changed. So messages that have a
    null somewhere are looked at once more.
    """
    suspicious = pc.match_substring(messages, b"null").to_numpy(zero_copy_only=False)
    for index in np.flatnonzero(suspicious[rows] & (operations == Operation.UPDATE)).tolist():
        old = document_of(messages[int(rows[index])].as_py()).get("old")
        element = old[int(place[index])] if isinstance(old, list) and place[index] < len(old) else old
        if isinstance(element, dict):
            yield index, [name for name, value in element.items() if value is None]


def restored(
    after: pa.StructArray, old: pa.StructArray, updated: npt.NDArray[np.bool_], told: Iterable[tuple[int, list[str]]]
) -> pa.StructArray:
    """The rows before: those after, with the fields that were others."""
    null_before: dict[str, list[int]] = {}
    for index, names in told:
        for name in names:
            null_before.setdefault(name, []).append(index)
    fields = []
    for field, new, former in zip(after.type, after.flatten(), old.flatten(), strict=True):
        takes_old = former.is_valid().to_numpy(zero_copy_only=False) & updated
        takes_old[null_before.get(field.name, [])] = True
        fields.append(pc.if_else(pa.array(takes_old), former, new))
    missing = np.where(
        updated, old.is_null().to_numpy(zero_copy_only=False), after.is_null().to_numpy(zero_copy_only=False)
    )
    return pa.StructArray.from_arrays(fields, fields=list(after.type), mask=pa.array(missing))
