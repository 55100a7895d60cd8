"""Formats by name: how records lie in files, chosen by a text and options instead of a class of the program.

A distribution adds one as an entry point of the group ``headrace.formats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.errors import UnsupportedOperationError
from headrace.common.plugins import Plugin, PluginGroup

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration
    from headrace.common.serialization import Encoder
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.encoders import BulkWriterFactory
    from headrace.formats.file_format import FileFormat


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
