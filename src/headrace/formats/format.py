"""Formats by name: how records lie in files, chosen by a text and options instead of a class of the program.

A distribution adds one as an entry point of the group ``headrace.formats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import UnsupportedOperationError
from headrace.common.plugins import Plugin, PluginGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        "csv": "headrace.formats.built_in:Csv",
        "json": "headrace.formats.built_in:Json",
        "parquet": "headrace.formats.built_in:Parquet",
        "text": "headrace.formats.built_in:Text",
    },
)
"""All formats that are there."""


def create_decoding_format(name: str, record_type: TypeInformation | None, options: Mapping[str, Any]) -> FileFormat:
    """The reading half of the format of a name.

    Raises:
        ConfigurationError: when there is no such format, or the options are wrong.
        InvalidTypeError: when the type does not fit, or has to be declared.
        UnsupportedOperationError: when the format can only be written.
    """
    plugin = FORMATS.load(name)
    return plugin.create_decoding_format(record_type, plugin.read_options(options))


def create_encoding_format(name: str, options: Mapping[str, Any]) -> Encoder | BulkWriterFactory:
    """The writing half of the format of a name.

    Raises:
        ConfigurationError: when there is no such format, or the options are wrong.
        UnsupportedOperationError: when the format can only be read.
    """
    plugin = FORMATS.load(name)
    return plugin.create_encoding_format(plugin.read_options(options))
