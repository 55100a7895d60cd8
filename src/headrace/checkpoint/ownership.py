"""Who may write to a checkpoint directory: the job manager that has started last.

Each job manager claims a generation before it writes anything: a file with the job's id, made exclusively and kept for
ever. One that finds a younger generation than its own has been superseded. The names of manifests alone would not do as
a fence: old ones are deleted, so one that wakes up after a long time finds the name of its next manifest free again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.durable import Permissions, create_exclusively, make_folder
from headrace.common.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


class Generations:
    """The generations of one checkpoint directory.

    Args:
        folder: where they are kept.
        permissions: who may read and write them.
    """

    def __init__(self, folder: Path, permissions: Permissions = Permissions.OWNER) -> None:
        self.folder = folder
        self._permissions = permissions
        make_folder(folder, permissions)

    def claim(self, at_least: int, job_id: str) -> int:
        """A generation that nobody had, and younger than all others.

        Args:
            at_least: the first that nobody can have had, by the newest manifest; files may have been lost.
            job_id: whose it is.
        """
        taken = (int(path.name) + 1 for path in self.folder.iterdir() if path.name.isdecimal())
        generation = max([at_least, *taken])
        while not create_exclusively(self.folder / str(generation), job_id.encode(), self._permissions):
            generation += 1
        return generation

    def job_id(self) -> str | None:
        """The job that the directory belongs to, by the youngest generation; None when nobody had it yet."""
        taken = [int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()]
        return (self.folder / str(max(taken))).read_text(errors="replace") if taken else None

    def is_current(self, generation: int) -> bool:
        """Whether there is none younger; they are claimed one after the other, so the next one tells."""
        return not (self.folder / str(generation + 1)).exists()

    def check(self, generation: int, job_id: str, manifest: str) -> None:
        """Refuse a manifest that somebody has put here from the checkpoint directory of another job.

        Raises:
            CheckpointError: naming both files, when the generation was claimed by another job.
        """
        path = self.folder / str(generation)
        try:
            found = path.read_bytes()
        except FileNotFoundError:  # nothing depends on it: the next generation is above those of all manifests
            return
        if found != job_id.encode():
            raise CheckpointError(
                f"manifest {manifest} is of job {job_id} and says that it has generation {generation}, but {path} is "
                "damaged or says that another job has: put back what belongs together"
            )
