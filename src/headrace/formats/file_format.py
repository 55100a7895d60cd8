"""Formats of files: how one is cut and read in parts, encoded and written as a whole, and found by name.

A format measures a file in units of its own, bytes for lines of text and rows for Parquet. The source cuts a file at
any unit, and the format says which records belong to a cut: for lines, those that start inside it. So cutting never
has to look into the file, and every cut of a file gives the same records.

For writing, an :class:`~headrace.common.serialization.Encoder` writes one record after the other, a
:class:`BatchEncoder` a whole batch at once. A :class:`BulkWriterFactory` makes writers for formats that are more than
the sum of their records, such as Parquet. Files of lines are joined by their bytes, other files by a function of their
format. A distribution adds a format as an entry point of the group ``headrace.formats``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, BinaryIO, ClassVar, Final, Generic, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.configuration import Configuration
from headrace.common.errors import CorruptFileError, InvalidTypeError, UnsupportedOperationError
from headrace.common.plugins import Plugin, PluginGroup
from headrace.common.serialization import Encoder
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import TypeInformation
from headrace.formats.statistics import Statistics
from headrace.storage.file_system import TakenOutput
from headrace.storage.files import InputFile


@dataclass(frozen=True, slots=True)
class FileExtent:
    """The size of a file and the places where it may be cut.

    Attributes:
        length: the file's end in the format's units.
        bytes_per_unit: bytes that one unit takes in the file, on average.
        records_per_unit: records that one unit holds, on average; an estimate.
        divisible: whether the file may be cut at all.
        preferred_cuts: rising units where a cut costs nothing (the row groups of a Parquet file).
        cuts_cost_nothing: whether cuts elsewhere cost nothing, either.
    """

    length: int
    bytes_per_unit: float = 1.0
    records_per_unit: float = 1.0
    divisible: bool = True
    preferred_cuts: tuple[int, ...] = ()
    cuts_cost_nothing: bool = True


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of one file, in the format's units.

    Attributes:
        file: the file.
        start: the first unit.
        end: the unit after the last one.
    """

    file: InputFile
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """Consecutive records as a format reads them: columns under the schema of the produced type, or rows.

    Attributes:
        columns: the records as Arrow columns.
        rows: the records as Python objects.
        rejected: what could not be read, as ``(where, raw, reason)``.
        damage: why some of the file is lost behind these records, where reading goes on after it.
        is_checked: whether it is known that all values in the columns are of the types of their fields.
    """

    columns: pa.RecordBatch | None = None
    rows: list[Any] | None = None
    rejected: list[tuple[str, str, str]] = field(default_factory=list)
    damage: CorruptFileError | None = None
    is_checked: bool = False


class FileFormat(ABC, Generic[T_co]):
    """The form of records in files; immutable and picklable."""

    @property
    @abstractmethod
    def produced_type(self) -> TypeInformation[T_co]:
        """The type of the records."""

    def resolve(self, list_files: Callable[[], Sequence[InputFile]]) -> FileFormat[T_co]:
        """A format whose type is fixed, when it can only be found in the files.

        Args:
            list_files: lists the files that are there now.

        Raises:
            InvalidTypeError: when the files do not tell the type; the source adds where it looked.
        """
        return self

    units_are_records: ClassVar[bool] = False
    """True where the units in which files are cut are records; else they are bytes."""

    def filtered(self, condition: pc.Expression) -> FileFormat[T_co]:
        """A format that may leave out records that do not meet a condition; this one, if it leaves out none."""
        return self

    @abstractmethod
    def extent(self, file: InputFile) -> FileExtent:
        """Measure a file; called in the driver, so it looks at little of the file.

        Raises:
            CorruptFileError: when nothing of the file can be read.
            OSError: when the file is gone, or on a passing fault.
        """

    def statistics(self, file: InputFile) -> Statistics | None:
        """The statistics that a file has of its records; None for none. Like :meth:`extent`, reads little of it."""
        return None

    @abstractmethod
    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        """The records of a part of a file, in order, in batches of some ten thousand.

        What is handed over before a damaged place follows from the bytes before it, not from how the file is cut.

        Args:
            part: what to read.
            reject: whether to hand over what cannot be read in :attr:`Decoded.rejected`, and go on.

        Raises:
            BadRecordError: on a record that cannot be read, naming file and line, unless ``reject``.
            CorruptFileError: where the file is damaged so that nothing behind can be read. A format that can go on
                behind such a place says so in :attr:`Decoded.damage` instead.
            OSError: when the file is gone, or on a passing fault.
        """


class BulkFormat(FileFormat[T_co]):
    """A format that is read in batches of columns: Parquet.

    Examples:
        >>> from headrace.datastream.connectors.file_system import BulkFormat, FileSource
        >>> from headrace.datastream.formats.parquet import ParquetFormat
        >>> isinstance(ParquetFormat(["id", "price"]), BulkFormat)
        True
        >>> prices = FileSource.for_bulk_file_format(ParquetFormat({"id": int, "price": float}), "/data/prices")
    """


class Format(Plugin):
    """Makes the reading and the writing half of a format."""

    noun = "format"

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        """Return how files are read.

        Args:
            record_type: the type of the records that the program has declared, if it has.
            options: those of the format, checked.

        Raises:
            InvalidTypeError: when the type does not fit, or has to be declared.
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} can only be written, not read")

    def create_encoding_format(self, options: Configuration) -> Encoder | BulkWriterFactory:
        """Return how files are written.

        Args:
            options: those of the format, checked.

        Raises:
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} can only be read, not written")


FORMATS: Final = PluginGroup(
    "headrace.formats",
    Format,
    dict.fromkeys(("avro", "csv", "json", "orc", "parquet", "text"), "headrace.formats.built_in:BuiltInFormat"),
)
"""All formats that are there."""


class BatchEncoder(Encoder, ABC):
    """Writes records batch by batch; the bytes of two batches may be put together."""

    __slots__ = ()

    takes_changes: bool = False
    """True where its output shows the kinds of rows in a changelog; else rows that are no insertions are refused."""

    def __init__(self) -> None:
        """Make an encoder; there is no function for single records."""

    @abstractmethod
    def encode_batch(self, batch: Batch) -> bytes:
        """The bytes of some records, each with whatever separates it from the next."""

    def encode(self, element: Any) -> bytes:
        """Not to be called: batches are encoded as a whole."""
        raise TypeError(f"{type(self).__name__} encodes batches, not single records")

    def header(self, input_type: TypeInformation) -> bytes:
        """The beginning of a file."""
        return b""

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type.

        Raises:
            InvalidTypeError: naming the type and what would fit.
        """


class BulkWriter(ABC):
    """Writes one file."""

    @abstractmethod
    def add_batch(self, batch: Batch) -> None:
        """Write some records, all or, where one of them cannot be written, none."""

    @abstractmethod
    def finish(self) -> None:
        """Write what the format has at the end; the file itself stays open."""

    @property
    def can_be_joined(self) -> bool:
        """Return whether what joins files of this kind can read what was written; called at the end."""
        return True


class BulkWriterFactory(ABC):
    """Makes writers; immutable and picklable."""

    @property
    def suffix(self) -> str:
        """The end of its files' names, unless a sink says otherwise."""
        return ""

    def file_kind(self, input_type: TypeInformation) -> FileKind | None:
        """By what its files of records of a type are joined; None, unless overridden: they cannot be."""
        return None

    @abstractmethod
    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        """A writer into ``out``, which can only be appended to."""

    def takes_changes(self, input_type: TypeInformation) -> bool:
        """Say whether its files show what rows do in a changelog; by default, where the type has a column for it."""
        return layout_of(input_type).has_kind_column

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type.

        Raises:
            InvalidTypeError: naming the type and what would fit.
        """


class EncodedFiles(BulkWriterFactory):
    """Makes writers of files that are a header and, behind it, one record after the other.

    Args:
        encoder: encodes the records, and the header if it is a :class:`BatchEncoder`.
        begins_with_header: whether a writer writes the header; not where what it writes is joined to larger files.
    """

    def __init__(self, encoder: Encoder, *, begins_with_header: bool = True) -> None:
        self.encoder = encoder if isinstance(encoder, BatchEncoder) else _RecordEncoder(encoder)
        self.begins_with_header = begins_with_header
        self._kind = FileKind.of(BYTES, f"{type(encoder).__module__}.{type(encoder).__qualname__}")

    def file_kind(self, input_type: TypeInformation) -> FileKind:
        return self._kind

    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        if self.begins_with_header:
            out.write(self.encoder.header(input_type))
        return _EncodedFile(self.encoder, out)

    def without_header(self) -> EncodedFiles:
        """Makes writers of the rest of such files."""
        found = copy(self)
        found.begins_with_header = False
        return found

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return self.encoder.takes_changes

    def validate(self, input_type: TypeInformation) -> None:
        self.encoder.validate(input_type)


@dataclass(frozen=True, slots=True)
class _EncodedFile(BulkWriter):
    encoder: BatchEncoder
    out: BinaryIO

    def add_batch(self, batch: Batch) -> None:
        self.out.write(self.encoder.encode_batch(batch))

    def finish(self) -> None:
        """Nothing comes at the end."""


class _RecordEncoder(BatchEncoder):
    """Encodes the records of batches one by one."""

    __slots__ = ("_encoder",)
    takes_changes = True

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def encode_batch(self, batch: Batch) -> bytes:
        encode = self._encoder.for_type(batch.type)
        # No map(): an encoder that raises StopIteration would end it, and the other records would be lost.
        encoded: list[Any] = [encode(row) for row in batch.rows]
        try:
            return b"".join(encoded)
        except TypeError:
            wrong = next(part for part in encoded if not isinstance(part, bytes | bytearray | memoryview))
            raise InvalidTypeError(
                f"{type(self._encoder).__name__} gave {wrong!r:.200} for a record: return bytes, as text.encode() gives"
            ) from None


def simple_text(column: pa.Array) -> pa.Array:
    """The values of a column of simple values as strings; what is missing stays so."""
    if pa.types.is_string(column.type):
        return column
    return column.cast(pa.string())


def whole_number_text(column: pa.Array) -> pa.Array:
    """The values of a column of integers in digits; long ones of BIG_INT are stored as hexadecimal ones."""
    if not pa.types.is_string(column.type):
        return simple_text(column)
    is_hexadecimal = pc.match_substring(column, "0x")
    if not pc.any(is_hexadecimal, min_count=0).as_py():
        return column
    digits = [str(int(text, 16)) for text in column.filter(is_hexadecimal).to_pylist()]
    return pc.replace_with_mask(column, is_hexadecimal.fill_null(False), pa.array(digits, pa.string()))


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def join_text(parts: Sequence[pa.Array | str]) -> pa.Array:
    """The strings of several columns, and fixed ones between them, put together row by row."""
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")


def bytes_of(column: pa.Array) -> bytes:
    """The strings of a column without missing values, one after the other."""
    return characters_of(column).tobytes()


def characters_of(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of a column of strings, one string after the other; of missing ones there may be something, too."""
    data = column.buffers()[2]
    if data is None or not len(column):
        return np.empty(0, np.uint8)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


BYTES: Final = "bytes"
"""The format of files of which one may just follow the other."""

_JOINERS: Final = {
    "parquet": "headrace.formats.parquet",
    "orc": "headrace.formats.orc",
    "avro": "headrace.formats.avro.writer",
}
"""The modules that join files, by format. Checkpoints hold these names.

Its ``join(files, out, **options)`` writes what is in some files of one layout into one, and yields now and then to have
it taken away.
"""


class FileKind(NamedTuple):
    """The kind of a file; files of one kind can be joined. A value of JSON, as part of committables.

    Attributes:
        format: by what they are joined.
        layout: a digest of their schema, or of what else has to be equal.
        options: how the joined file is written.
    """

    format: str
    layout: str
    options: dict[str, Any]

    @staticmethod
    def of(format: str, layout: str, **options: Any) -> FileKind:
        """A kind, of a layout in full."""
        return FileKind(format, hashlib.blake2b(layout.encode(), digest_size=8).hexdigest(), options)


def joined(kind: FileKind, files: Iterable[BinaryIO]) -> Iterator[bytes]:
    """The bytes of one file with the records of some, in their order.

    Args:
        kind: what they are; none of ``bytes``.
        files: each is read before the next one is taken.
    """
    join: Callable[..., Iterator[None]] = import_module(_JOINERS[kind.format]).join
    out = TakenOutput()
    for _ in join(files, cast("BinaryIO", out), **kind.options):
        yield out.take()
    yield out.take()
