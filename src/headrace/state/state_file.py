"""State files: sections one after the other, then an index of the whole version.

::

    magic   8 bytes
    section … each at a multiple of 64 bytes
    index   JSON, UTF-8
    trailer length of the index (u64), its CRC-32 (u32), length of the file before the trailer (u64), magic

All numbers are little-endian. A version that is small has no file of its own: the same bytes then travel inside the
version's reference.
"""

from __future__ import annotations

import hashlib
import json
from struct import Struct
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from headrace.common.errors import StateCorruptedError
from headrace.state.sections import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from headrace.state.sections import Section

MAGIC: Final = b"HRSTATE1"
SUFFIX: Final = ".state"
_TRAILER: Final = Struct("<QIQ8s")


class ImageWriter:
    """Collects what a state file consists of. The same sections and index always make the same bytes."""

    def __init__(self) -> None:
        self._chunks: list[bytes | pa.Buffer] = [MAGIC]
        self._size = len(MAGIC)

    def add(self, section: Section) -> int:
        """Appends a section; returns where it begins."""
        padding = -self._size % ALIGNMENT
        self._append(b"\0" * padding)
        start = self._size
        self._append(section.encoded())
        return start

    def finish(self, index: dict[str, Any]) -> Sequence[bytes | pa.Buffer]:
        """Appends index and trailer; returns all pieces of the file."""
        data = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
        self._append(data)
        self._append(_TRAILER.pack(len(data), crc32(data), self._size, MAGIC))
        # The index holds the checksums of everything that is new in this file.
        self.digest = hashlib.blake2b(data, digest_size=8).hexdigest()
        return self._chunks

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    def _append(self, chunk: bytes | pa.Buffer) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk) if isinstance(chunk, bytes) else chunk.size


def read_index(image: pa.Buffer, name: str) -> dict[str, Any]:
    """The index of a state file.

    Raises:
        StateCorruptedError: when the file is truncated, damaged or none of ours; the message names it.
    """
    if image.size < len(MAGIC) + _TRAILER.size:
        raise StateCorruptedError(f"the state file {name} is truncated: {image.size} bytes")
    view = memoryview(image).cast("B")
    length, check, size, magic = _TRAILER.unpack(view[-_TRAILER.size :])
    if magic != MAGIC or bytes(view[: len(MAGIC)]) != MAGIC or size != image.size - _TRAILER.size or length > size:
        raise StateCorruptedError(f"the state file {name} is truncated or damaged, or is no state file")
    data = view[size - length : size]
    if crc32(data) != check:
        raise StateCorruptedError(f"the index of the state file {name} is damaged")
    index: dict[str, Any] = json.loads(bytes(data))
    return index
