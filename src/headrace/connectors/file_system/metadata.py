"""Of which file a record is, as fields of the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.metadata import row_type
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.composite import declares_changes
from headrace.connectors.metadata import columns_of, fields_of
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.common.typeinfo import TypeInformation
    from headrace.storage.files import FileStatus

METADATA: Final[Mapping[str, TypeInformation]] = {
    "file.path": Types.STRING(),
    "file.name": Types.STRING(),
    "file.size": Types.LONG(),
    "file.modification-time": Types.TIMESTAMP_LTZ(),
}
"""What is known about a file, by the names that Flink's SQL has for it, and the types of such fields."""

_VALUES: Final[Mapping[str, Callable[[FileStatus], str | int]]] = {
    "file.path": lambda status: shown(status.path),
    "file.name": lambda status: status.path.rsplit("/", 1)[-1],
    "file.size": lambda status: status.size,
    "file.modification-time": lambda status: status.mtime_ns // 1000,
}
"""The same in the form that Arrow stores."""


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """Fields that tell of which file a record is.

    Attributes:
        record_type: the type of the records without them.
        fields: the metadata that each holds, by name of the field.
        produced_type: the type of the records with them.
    """

    record_type: TypeInformation
    fields: Mapping[str, str]
    produced_type: TypeInformation

    @staticmethod
    def of(record_type: TypeInformation, fields: Mapping[str, str]) -> FileMetadata:
        """Records of a type, and behind their fields those of metadata.

        Raises:
            InvalidProgramError: when two fields have one name.
        """
        every = fields_of(record_type) + [(field, METADATA[name]) for field, name in fields.items()]
        changelog = declares_changes(record_type)
        kind = row_type(every, "give set_metadata({'another name': ...})", changelog=changelog)
        return FileMetadata(record_type, dict(fields), kind)

    def added(self, columns: pa.RecordBatch | None, rows: list[Any] | None, status: FileStatus) -> pa.RecordBatch:
        """Records of a file, which are columns or rows, with the fields that tell of it."""
        arrays = columns_of(columns, rows, self.record_type)
        told = [_repeated(name, status, len(arrays[0])) for name in self.fields.values()]
        count = len(fields_of(self.record_type))
        schema = layout_of(self.produced_type).schema
        return pa.RecordBatch.from_arrays([*arrays[:count], *told, *arrays[count:]], schema=schema)


def _repeated(name: str, status: FileStatus, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(_VALUES[name](status), METADATA[name].storage_type), count)
