"""Whole files put together to one: those of lines by their bytes, others by what their format has for it."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

BYTES: Final = "bytes"
"""The format of files of which one may just follow the other."""

_JOINERS: Final = {
    "parquet": "headrace.formats.parquet",
    "orc": "headrace.formats.orc",
    "avro": "headrace.formats.avro.file_writer",
}
"""Which module joins files of a format. Checkpoints hold these names."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """What files have to have in common to be joined.

    Attributes:
        format: by what they are joined.
        layout: a digest of their schema, or of what else has to be equal.
        options: how the joined file is written; values of JSON.
    """

    format: str
    layout: str
    options: tuple[tuple[str, Any], ...] = ()

    @staticmethod
    def of(format: str, layout: str, **options: Any) -> FileKind:
        """A kind, of a layout in full."""
        digest = hashlib.blake2b(layout.encode(), digest_size=8).hexdigest()
        return FileKind(format, digest, tuple(sorted(options.items())))

    def to_json(self) -> Any:
        """For a checkpoint."""
        return [self.format, self.layout, dict(self.options)]

    @staticmethod
    def from_json(document: Any) -> FileKind:
        """What :meth:`to_json` gave."""
        format, layout, options = document
        return FileKind(format, layout, tuple(sorted(options.items())))


class Joiner(Protocol):
    """What a module of the table above has as ``join``."""

    def __call__(self, files: Iterable[BinaryIO], out: BinaryIO, **options: Any) -> Iterator[None]:
        """Write what is in some files of one layout into one, and stop now and then to have it taken."""


def joined(kind: FileKind, files: Iterable[BinaryIO]) -> Iterator[bytes]:
    """The bytes of one file with the records of some, in their order.

    Args:
        kind: what they are; none of ``bytes``.
        files: each is read before the next one is asked for.
    """
    join: Joiner = import_module(_JOINERS[kind.format]).join
    out = _Written()
    for _ in join(files, cast("BinaryIO", out), **dict(kind.options)):
        yield out.take()
    yield out.take()


class _Written(io.RawIOBase):
    """A file that can only be appended to, of which what was written is taken away."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        block = bytes(data)
        self._blocks.append(block)
        self._size += len(block)
        return len(block)

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        """What was written since the last time."""
        blocks, self._blocks = self._blocks, []
        return b"".join(blocks)
