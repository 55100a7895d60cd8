"""How a job, and what each epoch starts from, reach the tasks: with Spark while they are small, else by files.

Spark sends a query's settings along with every task, and a literal of the plan in every row. What differs from task to
task, and grows with their number, would then reach each of them whole. So when it is not small it lies in a file beside
the state, which driver and executors share anyway, and a task reads its own part.

Whoever can write there could have a task unpickle what it likes. So nothing is unpickled before its digest was found to
be the one that Spark has delivered: in the closure for a job, in the query's settings for parts.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
import secrets
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.durable import Permissions, make_folder, remove, target_of_temporary, write_file
from headrace.common.errors import InfrastructureError, JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

_ENTRY: Final = struct.Struct("<QQ16s")
"""Where a part begins, how long it is, and its digest; the file begins with one for each part."""

_HERE: Final = "here"
_FILE: Final = "file"

_OURS: Final = re.compile(r"job-[0-9a-f]{64}\.pickle|parts-[0-9a-f]{32}\.bin")
"""The names of shipped files."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Something that every task has its own part of.

    Attributes:
        here: the same for all, where that is small enough; then there is no file.
        path: the file.
        key: of the digests in it; whoever does not know it cannot change a part unnoticed.
    """

    here: bytes = b""
    path: str = ""
    key: bytes = b""

    def to_text(self) -> str:
        """As the value of a setting."""
        fields = (_FILE, self.key.hex(), self.path) if self.path else (_HERE, base64.b64encode(self.here).decode())
        return " ".join(fields)

    @staticmethod
    def from_text(text: str) -> Parts:
        """What :meth:`to_text` wrote."""
        kind, _, rest = text.partition(" ")
        if kind == _HERE:
            return Parts(here=base64.b64decode(rest))
        key, _, path = rest.partition(" ")
        return Parts(path=path, key=bytes.fromhex(key))

    def part(self, number: int) -> bytes:
        """The part of one task; of the file nothing else is read.

        Raises:
            OSError: when the file cannot be read.
            InfrastructureError: when it is damaged.
        """
        if not self.path:
            return self.here
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            entry = os.pread(descriptor, _ENTRY.size, number * _ENTRY.size)
            start, length, digest = _ENTRY.unpack(entry) if len(entry) == _ENTRY.size else (0, 0, b"")
            content = os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)
        if not secrets.compare_digest(digest, _digest(self.key, number, content)):
            raise InfrastructureError(f"part {number} of {self.path} is damaged, or another file has its name")
        return content


class ShippedFiles:
    """The files of one job that tasks read.

    Args:
        state_directory: where the job's state is; the files get a folder beside it.
        permissions: who may read them.
    """

    def __init__(self, state_directory: str, permissions: Permissions) -> None:
        self._folder = Path(state_directory).parent / "shipped"
        self._permissions = permissions
        make_folder(self._folder, permissions)

    def write_job(self, content: bytes) -> Path:
        """Write a job, under a name that tells its content."""
        path = self._folder / f"job-{hashlib.sha256(content).hexdigest()}.pickle"
        write_file(path, (content,), self._permissions)
        return path

    def write_parts(self, parts: Sequence[bytes]) -> Parts:
        """Write the parts of all tasks, in their order."""
        key = secrets.token_bytes(32)
        start = len(parts) * _ENTRY.size
        entries = []
        for number, part in enumerate(parts):
            entries.append(_ENTRY.pack(start, len(part), _digest(key, number, part)))
            start += len(part)
        path = self._folder / f"parts-{secrets.token_hex(16)}.bin"
        write_file(path, (b"".join(entries), *parts), self._permissions, durable=False)
        return Parts(path=str(path), key=key)

    def remove_leftovers(self) -> list[str]:
        """Delete what runs have left that were killed; nothing that is not a shipped file by its name.

        Returns:
            The names of the deleted files.
        """
        names = sorted(path.name for path in self._folder.iterdir())
        found = [name for name in names if _OURS.fullmatch(target_of_temporary(name) or name)]
        return [name for name in found if remove(self._folder / name)]


def forget(parts: Parts) -> None:
    """Nobody reads them any more."""
    if parts.path:
        try:
            remove(Path(parts.path))
        except OSError as error:
            logger.warning("%s is of no use any more, but cannot be removed: %s", parts.path, error)


def read_job(path: str) -> bytes:
    """The content of a job's file.

    Raises:
        JobExecutionError: when it is not what its name says.
    """
    content = Path(path).read_bytes()
    if Path(path).name != f"job-{hashlib.sha256(content).hexdigest()}.pickle":
        raise JobExecutionError(
            f"the job's file {path} has been changed since the driver wrote it: its content does not have the digest "
            "in its name. Nothing of it was used. See who can write to the checkpoint directory, and run the program "
            "again, which writes it anew"
        )
    return content


def _digest(key: bytes, number: int, content: bytes) -> bytes:
    return hashlib.blake2b(b"%d:%b" % (number, content), key=key, digest_size=16).digest()
