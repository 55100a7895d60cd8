"""Files of Parquet joined: small row groups of many become larger ones of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import pyarrow.parquet as pq

from headrace.formats.parquet.writer import RowGroups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def join(files: Iterable[BinaryIO], out: BinaryIO, *, compression: str) -> Iterator[None]:
    """Write the rows of all files into one; see :class:`~headrace.formats.joining.Joiner`."""
    groups: RowGroups | None = None
    for file in files:
        with pq.ParquetFile(file) as found:
            groups = groups or RowGroups(out, found.schema_arrow, compression)
            for columns in found.iter_batches():
                groups.add(columns)
                yield
    if groups is not None:
        groups.close()
