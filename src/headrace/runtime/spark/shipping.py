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
import re
import secrets
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.common.errors import InfrastructureError, JobExecutionError
from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.storage.folder import Folder

logger = get_logger(__name__)

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
        name: the file.
        key: of the digests in it; whoever does not know it cannot change a part unnoticed.
    """

    here: bytes = b""
    name: str = ""
    key: bytes = b""

    def to_text(self) -> str:
        """As the value of a setting."""
        fields = (_FILE, self.key.hex(), self.name) if self.name else (_HERE, base64.b64encode(self.here).decode())
        return " ".join(fields)

    @staticmethod
    def from_text(text: str) -> Parts:
        """What :meth:`to_text` wrote."""
        kind, _, rest = text.partition(" ")
        if kind == _HERE:
            return Parts(here=base64.b64decode(rest))
        key, _, name = rest.partition(" ")
        return Parts(name=name, key=bytes.fromhex(key))

    def part(self, number: int, folder: Folder) -> bytes:
        """The part of one task; of the file nothing else is read.

        Args:
            number: which task.
            folder: that of shipped files.

        Raises:
            OSError: when the file cannot be read.
            InfrastructureError: when it is damaged.
        """
        if not self.name:
            return self.here
        entry = folder.read_range(self.name, number * _ENTRY.size, _ENTRY.size)
        start, length, digest = _ENTRY.unpack(entry) if len(entry) == _ENTRY.size else (0, 0, b"")
        content = folder.read_range(self.name, start, length)
        if not secrets.compare_digest(digest, _digest(self.key, number, content)):
            where = folder.locate(self.name)
            raise InfrastructureError(f"part {number} of {where} is damaged, or another file has its name")
        return content


class ShippedFiles:
    """The files of one job that tasks read.

    Args:
        folder: their place, which is made when it is missing.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        folder.make()

    def write_job(self, content: bytes) -> str:
        """Write a job, under a name that tells its content."""
        name = _name_of_job(content)
        self.folder.write(name, (content,))
        return name

    def write_parts(self, parts: Sequence[bytes]) -> Parts:
        """Write the parts of all tasks, in their order."""
        key = secrets.token_bytes(32)
        start = len(parts) * _ENTRY.size
        entries = []
        for number, part in enumerate(parts):
            entries.append(_ENTRY.pack(start, len(part), _digest(key, number, part)))
            start += len(part)
        name = f"parts-{secrets.token_hex(16)}.bin"
        self.folder.write(name, (b"".join(entries), *parts), durable=False)
        return Parts(name=name, key=key)

    def forget(self, parts: Parts) -> None:
        """Nobody reads them any more."""
        if parts.name:
            try:
                self.folder.remove(parts.name)
            except OSError as error:
                where = self.folder.locate(parts.name)
                logger.warning("%s is of no use any more, but cannot be removed: %s", where, error)

    def remove_leftovers(self) -> list[str]:
        """Delete what runs have left that were killed; nothing that is not a shipped file by its name.

        Returns:
            The names of the deleted files.
        """
        unfinished = self.folder.remove_unfinished(lambda name: _OURS.fullmatch(name) is not None)
        found = [name for name in self.folder.names() if _OURS.fullmatch(name)]
        return sorted([*unfinished, *(name for name in found if self.folder.remove(name))])


def read_job(folder: Folder, name: str) -> bytes:
    """The content of a job's file.

    Raises:
        JobExecutionError: when it is not what its name says.
    """
    content = folder.read(name)
    if name != _name_of_job(content):
        raise JobExecutionError(
            f"the job's file {folder.locate(name)} has been changed since the driver wrote it: its content does not "
            "have the digest in its name. Nothing of it was used. See who can write to the checkpoint directory, and "
            "run the program again, which writes it anew"
        )
    return content


def _name_of_job(content: bytes) -> str:
    return f"job-{hashlib.sha256(content).hexdigest()}.pickle"


def _digest(key: bytes, number: int, content: bytes) -> bytes:
    return hashlib.blake2b(b"%d:%b" % (number, content), key=key, digest_size=16).digest()
