"""Visible files are assembled from the chunks of tasks, which are checked once more on the way."""

from __future__ import annotations

import errno
import os
import tempfile
import uuid
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from headrace.common.errors import CommitRefusedError
from headrace.formats.joining import joined
from headrace.storage.file_system import ContentDigest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.connectors.file_system.staging import Chunk, Part, Staging
    from headrace.storage.output import OutputTree


_IN_MEMORY_BYTES: Final = 8 << 20
"""A file up to this size is held in memory while it is joined with others, a larger one in an unnamed file."""


def put_together(staging: Staging, area: str, part: Part) -> str:
    """Write a part into a file of an area; gives its path.

    Raises:
        FileNotFoundError: when a chunk is missing, or the area has been taken away.
        CommitRefusedError: when a chunk is damaged.
    """
    name = uuid.uuid4().hex
    staging.tree.put_together(area, name, _content(staging, part))
    return f"{area}/{name}"


def _content(staging: Staging, part: Part) -> Iterator[bytes]:
    if part.is_rewritten:
        assert part.form.kind is not None, "it is joined by its format"
        yield from joined(part.form.kind, _files(staging, part))
        return
    yield part.form.header
    for number, chunk in enumerate(part.chunks):
        if part.seams is not None and number in part.seams.places:
            yield part.seams.delimiter
        yield from checked_blocks(staging.tree, staging.hidden(part.bucket, chunk.name), chunk)


def _files(staging: Staging, part: Part) -> Iterator[BinaryIO]:
    """The chunks as files that are read anywhere, none before it is known to be what the task wrote."""
    for chunk in part.chunks:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
            for block in checked_blocks(staging.tree, staging.hidden(part.bucket, chunk.name), chunk):
                file.write(block)
            file.seek(0)
            yield cast("BinaryIO", file)


def is_put_together(part: Part) -> bool:
    """Whether a part is more than a chunk as it stands."""
    return len(part.chunks) > 1 or bool(part.form.header)


def check_size(tree: OutputTree, path: str, chunk: Chunk) -> None:
    """See whether a chunk is there as a task wrote it, by its size.

    Raises:
        FileNotFoundError: when it is missing.
        CommitRefusedError: when it has another size.
    """
    found = tree.size(path)
    where = tree.locate(path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), where)
    if found != chunk.size:
        raise CommitRefusedError(f"{where} has {found} bytes, but a task wrote {chunk.size}; put it back as it was")


def checked_blocks(tree: OutputTree, path: str, chunk: Chunk) -> Iterator[bytes]:
    """The content of a chunk, which at its end is known to be what the task wrote.

    Raises:
        CommitRefusedError: when it is not.
    """
    digest = ContentDigest()
    for block in tree.blocks(path):
        digest.update(block)
        yield block
    if digest.text() != chunk.name.digest:
        raise CommitRefusedError(
            f"{tree.locate(path)} is damaged: its content is not what a task wrote; put it back as it was"
        )
