"""Files of Avro joined: blocks have no more than records, so those of many files make larger ones of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from headrace.formats.avro.container import open_blocks
from headrace.formats.avro.file_writer import BLOCK_BYTES, AvroBlocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def join(files: Iterable[BinaryIO], out: BinaryIO, *, codec: str) -> Iterator[None]:
    """Write the records of all files into one; see :class:`~headrace.formats.joining.Joiner`."""
    written: AvroBlocks | None = None
    count, waiting, size = 0, [], 0
    for file in files:
        header, blocks = open_blocks(file, "a file that is joined")
        written = written or AvroBlocks(out, header.schema, codec)
        for block in blocks:
            count, size = count + block.count, size + len(block.data)
            waiting.append(block.data)
            if size >= BLOCK_BYTES:
                written.write(count, b"".join(waiting))
                count, waiting, size = 0, [], 0
                yield
    if written is not None:
        if waiting:
            written.write(count, b"".join(waiting))
        written.close()
