"""Files of ORC joined: small stripes of many become larger ones of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow import orc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def join(files: Iterable[BinaryIO], out: BinaryIO, **options: Any) -> Iterator[None]:
    """Write the rows of all files into one; see :class:`~headrace.formats.joining.Joiner`."""
    writer = orc.ORCWriter(out, **options)
    for file in files:
        found = orc.ORCFile(file)
        for stripe in range(found.nstripes):
            writer.write(pa.Table.from_batches([found.read_stripe(stripe)]))
            yield
    writer.close()
