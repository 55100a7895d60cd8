"""Images of rows before and after changes, as a changelog: an update is two rows, ``-U`` and ``+U``."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError
from headrace.common.row import RowKind
from headrace.common.serialization import DeserializedBatch
from headrace.common.typeinfo import CompositeTypeInfo, RowTypeInfo, TypeInformation
from headrace.formats.json.columns import document_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt


class Operation(enum.IntEnum):
    """What a message says has happened to a row."""

    UNKNOWN = -1
    NOTHING = 0
    INSERT = 1
    UPDATE = 2
    DELETE = 3


_NO_OPERATION: Final = "the message does not say what has happened to the row, or not where the format says it"
_NO_BEFORE: Final = (
    "there is no image of the row as it was: have the database tell it (of Postgres with ALTER TABLE ... REPLICA "
    "IDENTITY FULL)"
)
_NO_AFTER: Final = "there is no image of the row as it is"


@dataclass(frozen=True, slots=True)
class Images:
    """What messages say of rows.

    Attributes:
        operations: what has happened to each, values of :class:`Operation`.
        before: each as it was, structs, null where that is not told.
        after: each as it is.
        messages: the index of the message that tells of each, never falling.
    """

    operations: npt.NDArray[np.int8]
    before: pa.StructArray
    after: pa.StructArray
    messages: npt.NDArray[np.int64]


def changelog_type(kind: TypeInformation) -> RowTypeInfo:
    """The rows of a type with a column for what they do.

    Raises:
        InvalidTypeError: when the type has no fields.
    """
    if not isinstance(kind, CompositeTypeInfo):
        raise InvalidTypeError(
            f"changes are those of rows: give a type with fields, such as Types.ROW_NAMED, not {kind}"
        )
    return RowTypeInfo(kind.field_types, kind.field_names, changelog=True)


def operations_of(column: pa.Array, known: Mapping[str, Operation]) -> npt.NDArray[np.int8]:
    """The operations of their names."""
    names = pa.array(list(known), pa.string())
    codes = np.array([*known.values(), Operation.UNKNOWN], np.int8)
    places = pc.index_in(column, names).fill_null(len(known)).to_numpy(zero_copy_only=False)
    operations: npt.NDArray[np.int8] = codes[places]
    return operations


def changelog(
    images: Images, kind: RowTypeInfo, names: pa.Array, known: Sequence[str], metadata: Sequence[pa.Array] = ()
) -> DeserializedBatch:
    """The rows of images. Of a message that does not tell what it should there is none.

    Args:
        images: what messages say.
        kind: the type of the rows, with a column for what they do.
        names: what each says has happened, for messages.
        known: what may have happened.
        metadata: what messages say besides, a column for each field, in which messages are rows.
    """
    operations, messages = images.operations, images.messages
    no_before = images.before.is_null().to_numpy(zero_copy_only=False) & (operations >= Operation.UPDATE)
    changed = (operations == Operation.INSERT) | (operations == Operation.UPDATE)
    no_after = images.after.is_null().to_numpy(zero_copy_only=False) & changed
    unknown = operations == Operation.UNKNOWN
    rejected: dict[int, str] = {}
    for index in np.flatnonzero(no_before | no_after | unknown).tolist():
        name, choices = names[index].as_py(), ", ".join(known)
        told = f"{name!r} is none of {choices}" if name is not None else f"{_NO_OPERATION}, one of {choices}"
        reason = told if unknown[index] else _NO_BEFORE if no_before[index] else _NO_AFTER
        rejected.setdefault(int(messages[index]), reason)
    good = np.isin(messages, list(rejected), invert=True) & (operations > Operation.NOTHING)
    rows = np.flatnonzero(good)
    counts = np.where(operations[rows] == Operation.UPDATE, 2, 1)
    of = np.repeat(rows, counts)
    is_second = np.zeros(len(of), np.bool_)
    is_second[np.cumsum(counts)[counts == 2] - 1] = True
    kinds = np.where(is_second, RowKind.UPDATE_AFTER.value, _FIRST_KINDS[operations[of]]).astype(np.int8)
    takes_before = (kinds == RowKind.UPDATE_BEFORE.value) | (kinds == RowKind.DELETE.value)
    both = pa.concat_arrays([images.after, images.before]).take(pa.array(of + takes_before * len(operations)))
    schema = layout_of(kind).schema
    besides = [column.take(pa.array(messages[of])) for column in metadata]
    columns = pa.RecordBatch.from_arrays([*both.flatten(), *besides, pa.array(kinds)], schema=schema)
    return DeserializedBatch(columns, messages=messages[of], rejected=sorted(rejected.items()))


_FIRST_KINDS: Final = np.array([0, RowKind.INSERT.value, RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value, 0], np.int8)
"""What the first row of an operation does, by the operation."""


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
