"""``ChangesDeserializationSchema``: what schemas of changes of tables have in common, whatever their format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import UnsupportedOperationError
from headrace.common.metadata import chosen_metadata, row_type
from headrace.common.serialization import DeserializationSchema, DeserializedBatch
from headrace.common.typeinfo import MapTypeInfo, RowTypeInfo, TypeInformation, Types
from headrace.formats.bad_records import without_unreadable
from headrace.formats.cdc.images import Images, Operation, changelog, changelog_type
from headrace.formats.columnar_messages import decode_good_messages
from headrace.formats.json.decoders import decoder_of

_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class MetadataField:
    """One thing that messages of a format say.

    Attributes:
        path: where it stands in the document.
        kind: the type of the field.
        stored: the type of what stands there.
        unit: of what stands there in numbers or texts and is a moment: ``s``, ``ms`` or ``us``.
    """

    path: tuple[str, ...]
    kind: TypeInformation
    stored: TypeInformation
    unit: str | None = None


def text(*path: str) -> MetadataField:
    """A string; anything else as its text of JSON."""
    return MetadataField(path, Types.STRING(), Types.STRING())


def texts(*path: str) -> MetadataField:
    """A list of strings."""
    return MetadataField(path, Types.LIST(Types.STRING()), Types.LIST(Types.STRING()))


def moment(*path: str, unit: str) -> MetadataField:
    """A number of seconds or milliseconds since 1970."""
    return MetadataField(path, Types.TIMESTAMP_LTZ(), Types.LONG(), unit)


def time_of_utc(*path: str) -> MetadataField:
    """A text of day and time without a zone, which is UTC."""
    return MetadataField(path, Types.TIMESTAMP_LTZ(), Types.SQL_TIMESTAMP(), "us")


def numbers(*path: str) -> MetadataField:
    """Numbers by name."""
    kind = Types.MAP(Types.STRING(), Types.INT())
    return MetadataField(path, kind, kind)


def properties(*path: str) -> MetadataField:
    """Whatever stands there, by name, as texts."""
    kind = Types.MAP(Types.STRING(), Types.STRING())
    return MetadataField(path, kind, kind)


def metadata_columns(fields: Sequence[MetadataField], messages: pa.Array) -> list[pa.Array]:
    """What messages say, a column for each field.

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
        *outer, last = field.path
        node = tree
        for name in outer:
            node = node.setdefault(name, {})
        node[last] = field.stored
    batch = decoder_of(_row_of(tree)).messages(messages)
    return [_typed(field, _found(batch, field.path)) for field in fields]


def _row_of(tree: Mapping[str, Any]) -> TypeInformation:
    kinds = [_row_of(inner) if isinstance(inner, dict) else inner for inner in tree.values()]
    return Types.ROW_NAMED(list(tree), kinds)


def _found(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    array = batch.column(path[0])
    return pc.struct_field(array, list(path[1:])) if len(path) > 1 else array


def _typed(field: MetadataField, array: pa.Array) -> pa.Array:
    if field.unit is None:
        return array
    micros = pc.multiply_checked(array.view(pa.int64()), _MICROS[field.unit])
    return micros.view(field.kind.storage_type)


class ChangesDeserializationSchema(DeserializationSchema):
    """Reads messages that each tell of changes of rows: one message may be several records, or none.

    Args:
        type_info: the type of the rows of the table, with fields.
        metadata: names of metadata, or fields by name and the metadata that each holds; they follow those of the row.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidProgramError: when there is no such metadata, or two fields have one name.
    """

    operations: ClassVar[Mapping[str, Operation]]
    """What may have happened, by its names."""

    operation_field: ClassVar[str]
    """The field of a message that says what has happened."""

    known_metadata: ClassVar[Mapping[str, MetadataField]] = {}
    """What messages say besides rows, by the names that Flink's SQL has."""

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        metadata: Mapping[str, str] | Sequence[str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        changes = changelog_type(type_info)
        self.row_type = RowTypeInfo(changes.types, changes.names)
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
        """What messages hold, with the metadata behind it."""
        read = self.decode(messages)
        for place, column in enumerate(metadata_columns(self._metadata, messages)):
            read = read.append_column(f"metadata {place}", column)
        return read

    @abstractmethod
    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        """What messages hold around the rows; raises ``ValueError`` when one cannot be read."""

    @abstractmethod
    def images(self, read: pa.RecordBatch, messages: pa.Array) -> Images:
        """The rows before and after each change."""
