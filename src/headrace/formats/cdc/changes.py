"""Changes of tables as a changelog, whatever the format of the messages: an update is two rows, ``-U`` and ``+U``."""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import valid_mask
from headrace.common.batch import Batch, take_back
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError
from headrace.common.messages import chosen_metadata, row_type
from headrace.common.serialization import DeserializationSchema, DeserializedBatch
from headrace.common.typeinfo import CompositeTypeInfo, MapTypeInfo, RowTypeInfo, TypeInformation, Types
from headrace.common.types import RowKind
from headrace.formats.bad_records import ColumnarSerializationSchema, decode_good_messages, without_unreadable
from headrace.formats.file_format import join_text
from headrace.formats.json.columns import document_of
from headrace.formats.json.decoders import decoder_of
from headrace.formats.json.writer import JsonStyle, json_texts


class Operation(enum.IntEnum):
    """The operation on a row that a message describes."""

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
    """Images of rows, as messages give them.

    Attributes:
        operations: what has happened to each, values of :class:`Operation`.
        before: each as it was, structs, null if that is not sent.
        after: each as it is.
        messages: the index of the message of each, never falling.
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


def rows_of_changes(kind: TypeInformation) -> RowTypeInfo:
    """The rows of a type, without a column for what they do; errors as for :func:`changelog_type`."""
    changes = changelog_type(kind)
    return RowTypeInfo(changes.types, changes.names)


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
        problem = f"{name!r} is none of {choices}" if name is not None else f"{_NO_OPERATION}, one of {choices}"
        reason = problem if unknown[index] else _NO_BEFORE if no_before[index] else _NO_AFTER
        rejected.setdefault(int(messages[index]), reason)
    good = np.isin(messages, list(rejected), invert=True) & (operations > Operation.NOTHING)
    rows = np.flatnonzero(good)
    counts = np.where(operations[rows] == Operation.UPDATE, 2, 1)
    of = np.repeat(rows, counts)
    is_second = np.zeros(len(of), np.bool_)
    is_second[np.cumsum(counts)[counts == 2] - 1] = True
    kinds = np.where(is_second, RowKind.UPDATE_AFTER.value, _FIRST_KINDS[operations[of]]).astype(np.int8)
    both = pa.concat_arrays([images.after, images.before]).take(pa.array(of + take_back(kinds) * len(operations)))
    schema = layout_of(kind).schema
    besides = [column.take(pa.array(messages[of])) for column in metadata]
    columns = pa.RecordBatch.from_arrays([*both.flatten(), *besides, pa.array(kinds)], schema=schema)
    return DeserializedBatch(columns, messages=messages[of], rejected=sorted(rejected.items()))


_FIRST_KINDS: Final = np.array([0, RowKind.INSERT.value, RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value, 0], np.int8)
"""The row kind of the first row of an operation, by the operation."""


def stated_nulls(
    messages: pa.Array, rows: npt.NDArray[Any], place: npt.NDArray[Any], operations: npt.NDArray[Any]
) -> Iterator[tuple[int, list[str]]]:
    """Find the rows that had nulls before an update, and in which fields.

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
    after: pa.StructArray, old: pa.StructArray, updated: npt.NDArray[np.bool_], nulls: Iterable[tuple[int, list[str]]]
) -> pa.StructArray:
    """The rows before: those after, with the fields that were others."""
    null_before: dict[str, list[int]] = {}
    for index, names in nulls:
        for name in names:
            null_before.setdefault(name, []).append(index)
    fields = []
    for field, new, former in zip(after.type, after.flatten(), old.flatten(), strict=True):
        takes_old = valid_mask(former) & updated
        takes_old[null_before.get(field.name, [])] = True
        fields.append(pc.if_else(pa.array(takes_old), former, new))
    missing = np.where(
        updated, old.is_null().to_numpy(zero_copy_only=False), after.is_null().to_numpy(zero_copy_only=False)
    )
    return pa.StructArray.from_arrays(fields, fields=list(after.type), mask=pa.array(missing))


_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


_STRING: Final = Types.STRING()
_LONG: Final = Types.LONG()


@dataclass(frozen=True, slots=True)
class MetadataField:
    """One thing that messages of a format say besides rows.

    Attributes:
        path: where it stands in the document: names of members, with dots between them.
        kind: the type of the field; of a string anything else is read as its text of JSON.
        stored: the type of what stands there, where that is another one.
        unit: of what stands there in numbers or texts and is a moment: ``s``, ``ms`` or ``us``.
    """

    path: str
    kind: TypeInformation = _STRING
    stored: TypeInformation | None = None
    unit: str | None = None


def moment(path: str, unit: str = "us", stored: TypeInformation = _LONG) -> MetadataField:
    """A moment: a number since 1970 in some unit, or a text of day and time without a zone, which is UTC."""
    return MetadataField(path, Types.TIMESTAMP_LTZ(), stored, unit)


def metadata_columns(fields: Sequence[MetadataField], messages: pa.Array) -> list[pa.Array]:
    """Read the metadata of messages, a column for each field.

    Raises:
        ValueError: when a message cannot be read.
    """
    alone = [field for field in fields if isinstance(field.kind, MapTypeInfo)]  # others may be within it
    read = {field: column for field in alone for column in _read([field], messages)}
    together = [field for field in fields if field not in read]
    read |= zip(together, _read(together, messages), strict=True)
    return [read[field] for field in fields]


def _read(fields: Sequence[MetadataField], messages: pa.Array) -> list[pa.Array]:
    if not fields:
        return []
    tree: dict[str, Any] = {}
    for field in fields:
        *outer, last = field.path.split(".")
        node = tree
        for name in outer:
            node = node.setdefault(name, {})
        node[last] = field.stored or field.kind
    documents = decoder_of(_row_of(tree)).messages(messages).to_struct_array()
    return [_typed(field, pc.struct_field(documents, field.path.split("."))) for field in fields]


def _row_of(tree: Mapping[str, object]) -> TypeInformation:
    kinds = [_row_of(inner) if isinstance(inner, dict) else inner for inner in tree.values()]
    return Types.ROW_NAMED(list(tree), kinds)


def _typed(field: MetadataField, array: pa.Array) -> pa.Array:
    if field.unit is None:
        return array
    micros = pc.multiply_checked(array.view(pa.int64()), _MICROS[field.unit])
    return micros.view(field.kind.storage_type)


class ChangesDeserializationSchema(DeserializationSchema):
    """Reads messages that each tell of changes of rows: one message may be several records, or none.

    Messages have the row as it was in ``before``, and as it is in ``after``, where a format does not say otherwise.

    Args:
        type_info: the type of the rows of the table, with fields.
        metadata: names of metadata, or fields by name and the metadata that each holds; they follow those of the row.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidProgramError: when there is no such metadata, or two fields have one name.
    """

    operations: ClassVar[Mapping[str, Operation]]
    """The operations, by their names in messages."""

    operation_field: ClassVar[str]
    """The field of a message that says what has happened."""

    known_metadata: ClassVar[Mapping[str, MetadataField]] = {}
    """The metadata of messages, by their names in Flink's SQL."""

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        metadata: Mapping[str, str] | Sequence[str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        changes = changelog_type(type_info)
        self.row_type = rows_of_changes(type_info)
        chosen = chosen_metadata(metadata, self.known_metadata, f"messages of {type(self).__name__}")
        self._metadata = [self.known_metadata[name] for name in chosen.values()]
        named = zip(
            [*changes.field_names, *chosen], [*changes.field_types, *(f.kind for f in self._metadata)], strict=True
        )
        self._type = changelog_type(row_type(list(named), "give metadata={'another name': ...}", changelog=True))
        self.ignore_parse_errors = ignore_parse_errors

    def get_produced_type(self) -> TypeInformation:
        """The rows, with a column for what they do."""
        return self._type

    def deserialize(self, message: bytes) -> NoReturn:
        """Refused: a message may be several rows."""
        raise UnsupportedOperationError("a message of changes may be several rows: call deserialize_batch(...)")

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        """The rows of messages; an empty one is a tombstone, as in Flink, and gives none."""
        is_empty = pc.equal(pc.binary_length(messages), 0)
        messages = pc.if_else(is_empty, pa.scalar(None, messages.type), messages)
        read = decode_good_messages(self._decode_all, messages)
        assert read.columns is not None
        sources = np.arange(len(messages)) if read.messages is None else read.messages
        texts = messages if read.messages is None else messages.take(pa.array(sources))
        images = self.images(read.columns, texts)
        names = read.columns.column(self.operation_field).take(pa.array(images.messages))
        besides = read.columns.columns[len(read.columns.columns) - len(self._metadata) :]
        made = changelog(images, self._type, names, list(self.operations), besides)
        assert made.messages is not None
        more = [(int(sources[index]), reason) for index, reason in made.rejected]
        rejected = sorted([*read.rejected, *more])
        rows = DeserializedBatch(made.columns, messages=sources[made.messages], rejected=rejected)
        return without_unreadable(rows, self._type)

    def _decode_all(self, messages: pa.Array) -> pa.RecordBatch:
        """Decode messages, with the metadata behind the other columns."""
        read = self.decode(messages)
        for place, column in enumerate(metadata_columns(self._metadata, messages)):
            read = read.append_column(f"metadata {place}", column)
        return read

    @property
    def _envelope(self) -> TypeInformation:
        return Types.ROW_NAMED(
            ["before", "after", self.operation_field], [self.row_type, self.row_type, Types.STRING()]
        )

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        """Decode messages to the columns around the rows; raises ``ValueError`` when one cannot be read."""
        return decoder_of(self._envelope).messages(messages)

    def images(self, read: pa.RecordBatch, messages: pa.Array) -> Images:
        """The rows before and after each change."""
        operations = operations_of(read.column(self.operation_field), self.operations)
        return Images(operations, read.column("before"), read.column("after"), np.arange(len(operations)))


def are_removed(batch: Batch) -> npt.NDArray[np.bool_]:
    """Mark the records that are retractions."""
    kinds = batch.kinds
    return np.zeros(len(batch), np.bool_) if kinds is None else take_back(kinds)


class ChangesSerializationSchema(ColumnarSerializationSchema):
    """Writes rows of any kind, each with what it does.

    Args:
        type_info: the type of the rows.
        timestamp_format: how moments are written: ``ISO-8601``, or ``SQL``, which has a blank in place of the ``T``.
        ignore_null_fields: whether fields without a value are left out.

    Raises:
        ConfigurationError: when there is no such format.
    """

    takes_changes = True

    templates: ClassVar[tuple[str, str]]
    """The message of a row that is there from now on, and of one that is not there any more; ``%`` is the row."""

    def __init__(
        self, type_info: TypeInformation, *, timestamp_format: str = "ISO-8601", ignore_null_fields: bool = False
    ) -> None:
        super().__init__(rows_of_changes(type_info))
        self._style = JsonStyle(timestamp_format, ignore_null_fields)

    def serialize_batch(self, batch: Batch) -> pa.Array:
        rows = json_texts(self.columns_of(batch), self._type, style=self._style)
        removed = are_removed(batch).astype(np.int64)
        around = zip(*(template.split("%") for template in self.templates), strict=True)
        before, after = (pa.array(texts).take(pa.array(removed)) for texts in around)
        return join_text([before, rows, after]).cast(pa.binary())
