"""What the formats of files of columns have in common: Parquet and ORC, as Arrow reads them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.common.errors import CorruptFileError
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def telling_damage(message: str) -> Iterator[None]:
    """Tell what Arrow says of damaged data from a passing fault of the disk.

    Raises:
        CorruptFileError: in place of the former, beginning with ``message``.
    """
    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptFileError(f"{message}: {error}") from error


def names_in_file(path: str, found: Sequence[str], wanted: Sequence[str], *, case_sensitive: bool) -> list[str]:
    """The names that a file gives to the wanted columns.

    Args:
        path: the file, for messages.
        found: the columns of the file.
        wanted: the columns that are read.
        case_sensitive: whether names have to be spelled exactly.

    Raises:
        CorruptFileError: when a column is missing.
    """
    if not case_sensitive:
        by_lower = {name.lower(): name for name in found}
        wanted = [by_lower.get(name.lower(), name) for name in wanted]
    missing = [name for name in wanted if name not in found]
    if missing:
        raise CorruptFileError(f"{shown(path)} has no column {missing[0]!r}; it has {', '.join(found)}")
    return list(wanted)


def typed_batch(path: str, batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Some columns of a batch under the schema of the records.

    Raises:
        CorruptFileError: when a column does not fit.
    """
    with telling_damage(f"{path} does not fit the type of the records"):
        arrays = [_cast(batch.column(name), field.type) for name, field in zip(names, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
