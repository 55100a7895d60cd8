"""Reading files: how a format cuts files and reads a part of one; and formats by name.

A format measures a file in units of its own, bytes for lines of text and rows for Parquet. The source cuts a file at
any unit, and the format says which records belong to a cut: for lines, those that start inside it. So cutting never
has to look into the file, and every cut of a file gives the same records.

A distribution adds a format as an entry point of the group ``headrace.formats``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic

from headrace.common.errors import UnsupportedOperationError
from headrace.common.plugins import Plugin, PluginGroup
from headrace.common.type_variables import T_co

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from headrace.common.configuration import Configuration
    from headrace.common.errors import CorruptFileError
    from headrace.common.serialization import Encoder
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.encoders import BulkWriterFactory
    from headrace.storage.files import InputFile


@dataclass(frozen=True, slots=True)
class FileExtent:
    """How much there is in a file and where it may be cut.

    Attributes:
        length: the file's end in the format's units.
        bytes_per_unit: bytes that one unit takes in the file, on average.
        records_per_unit: records that one unit holds, on average; an estimate.
        divisible: whether the file may be cut at all.
        preferred_cuts: rising units where a cut costs nothing (the row groups of a Parquet file).
    """

    length: int
    bytes_per_unit: float = 1.0
    records_per_unit: float = 1.0
    divisible: bool = True
    preferred_cuts: tuple[int, ...] = ()


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
    """

    columns: pa.RecordBatch | None = None
    rows: list[Any] | None = None
    rejected: list[tuple[str, str, str]] = field(default_factory=list)
    damage: CorruptFileError | None = None


class FileFormat(ABC, Generic[T_co]):
    """How records lie in files; immutable and picklable."""

    @property
    @abstractmethod
    def produced_type(self) -> TypeInformation[T_co]:
        """The type of the records."""

    def resolve(self, list_files: Callable[[], Sequence[InputFile]]) -> FileFormat[T_co]:
        """A format whose type is fixed, when it can only be told by looking into the files.

        Args:
            list_files: lists the files that are there now.

        Raises:
            InvalidTypeError: when the files do not tell the type; the source adds where it looked.
        """
        return self

    @abstractmethod
    def extent(self, file: InputFile) -> FileExtent:
        """Measure a file; called in the driver, so it looks at little of the file.

        Raises:
            CorruptFileError: when nothing of the file can be read.
            OSError: when the file is gone, or on a passing fault.
        """

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
        """How files are read.

        Args:
            record_type: the type of the records that the program has declared, if it has.
            options: those of the format, checked.

        Raises:
            InvalidTypeError: when the type does not fit, or has to be declared.
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} can only be written, not read")

    def create_encoding_format(self, options: Configuration) -> Encoder | BulkWriterFactory:
        """How files are written.

        Args:
            options: those of the format, checked.

        Raises:
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} can only be read, not written")


FORMATS: Final = PluginGroup(
    "headrace.formats",
    Format,
    {
        "avro": "headrace.formats.built_in:Avro",
        "csv": "headrace.formats.built_in:Csv",
        "json": "headrace.formats.built_in:Json",
        "orc": "headrace.formats.built_in:Orc",
        "parquet": "headrace.formats.built_in:Parquet",
        "text": "headrace.formats.built_in:Text",
    },
)
"""All formats that are there."""
