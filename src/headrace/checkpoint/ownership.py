"""Who may write to a checkpoint directory: the job manager that has started last.

Each job manager claims a generation before it writes anything: a file with the job's id and its own mark, made
exclusively and kept for ever. One that finds a younger generation of somebody else's has been superseded. The names of
manifests alone would not do as a fence: old ones are deleted, so one that wakes up after a long time finds the name of
its next manifest free again.
"""

from __future__ import annotations

import errno
import re
import uuid
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointError
from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from headrace.storage.folder import Folder

logger = get_logger(__name__)

_NUMBER: Final = re.compile("0|[1-9][0-9]*")
_CLAIM: Final = re.compile(r"([!-~]+) ([0-9a-f]{32})")


class Generations:
    """The generations of one checkpoint directory.

    Args:
        folder: where they are kept.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._mark = uuid.uuid4().hex
        folder.make()

    def claim(self, at_least: int, job_id: str) -> int:
        """A generation that nobody had, and younger than all others.

        Args:
            at_least: the first that nobody can have had, by the newest manifest; files may have been lost.
            job_id: whose it is.
        """
        generation = max([at_least, *(taken + 1 for taken in self._taken())])
        while not self._create(generation, job_id):
            generation += 1
        return generation

    def renew(self, job_id: str) -> int | None:
        """The generation after one's own; None when the youngest is somebody else's.

        Raises:
            CheckpointError: when there is none any more.
        """
        if not self._taken():
            raise CheckpointError(
                f"the generations have been removed from {self.folder} while the job was running: whether another job "
                "manager has taken over cannot be told; see to it that there is none, and start the job again"
            )
        while self._is_own(youngest := max(self._taken())):
            if self._create(youngest + 1, job_id):
                return youngest + 1
        return None

    def is_current(self, generation: int) -> bool:
        """Whether nobody else has a younger one; they are claimed one after the other, so the next one tells.

        One's own may be younger: claimed, but not known to be, as an error came after its file had come into being.
        """
        younger = generation + 1
        while self.folder.size(str(younger)) is not None:
            if not self._is_own(younger):
                return False
            younger += 1
        return True

    def job_id(self) -> str | None:
        """The job that the directory belongs to, by the youngest generation of ours; None when nobody had it yet."""
        owners = (self._read(generation)[0] for generation in sorted(self._taken(), reverse=True))
        return next(filter(None, owners), None)

    def remove_unfinished(self, generation: int) -> None:
        """Remove what was left by job managers that were killed while they claimed a generation before this one."""
        self.folder.remove_unfinished(lambda name: _NUMBER.fullmatch(name) is not None and int(name) < generation)

    def check(self, generation: int, job_id: str, manifest: str) -> None:
        """Refuse a manifest that somebody has put here from the checkpoint directory of another job.

        Raises:
            CheckpointError: naming both files, when the generation was claimed by another job.
        """
        try:
            found, _ = self._read(generation)
        except FileNotFoundError:  # nothing depends on it: the next generation is above those of all manifests
            return
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            where = self.folder.locate(str(generation))
            logger.warning("%s cannot be read: whether %s is another job's cannot be told (%s)", where, manifest, error)
            return
        if found != job_id:
            raise CheckpointError(
                f"manifest {manifest} is of job {job_id} and says that it has generation {generation}, but "
                f"{self.folder.locate(str(generation))} is damaged or of another job: put back what belongs together"
            )

    def _create(self, generation: int, job_id: str) -> bool:
        try:
            return self.folder.create(str(generation), f"{job_id} {self._mark}".encode())
        except OSError:
            # Whoever has taken it removes what others left unfinished, and one of these may just have been slow.
            if self.folder.size(str(generation)) is not None and not self._is_own(generation):
                return False
            raise

    def _is_own(self, generation: int) -> bool:
        return self._read(generation)[1] == self._mark

    def _read(self, generation: int) -> tuple[str, str]:
        """The job and the mark of whoever claimed it; empty when it is a stranger's file, or a folder."""
        try:
            claim = _CLAIM.match(self.folder.read(str(generation)).decode(errors="replace"))
        except IsADirectoryError:
            claim = None
        return (claim[1], claim[2]) if claim else ("", "")

    def _taken(self) -> list[int]:
        return [int(name) for name in self.folder.names() if _NUMBER.fullmatch(name)]
