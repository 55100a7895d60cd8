"""The checkpoint directory of one job: its manifests, its state files, and who may write to it.

Layout: ``manifests/<number>.json``, ``state/<file>``, ``sources/<uid>/…``, ``generations/<number>``. The manifest with
the largest number is the state of the job. A manifest is created exclusively, so two job managers cannot both write
number ``n + 1``: who comes second has been superseded, and so has whoever finds a younger generation than its own.
``manifests/newest`` holds the largest number there was, so that a manifest that somebody removed is missed.
"""

from __future__ import annotations

import contextlib
import logging
import re
import stat
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

from headrace.checkpoint.files import folder_name, local_path, probe
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.ownership import Generations
from headrace.common.durable import (
    Permissions,
    create_exclusively,
    make_folder,
    remove,
    target_of_temporary,
    write_file,
)
from headrace.common.errors import CheckpointError, InfrastructureError, JobSupersededError
from headrace.state.state_file import CompactedName, VersionName

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger(__name__)

_MANIFEST = re.compile(r"([0-9]{12})\.json")


class CheckpointStore:
    """Reads and writes one checkpoint directory.

    Args:
        location: the folder; driver and executors must see it under the same path.
        num_retained: how many manifests are kept, with all that they need.
        permissions: who may read and write what is in it.

    Raises:
        CheckpointStorageError: when the folder cannot be used, or does not promise what exactness needs.
    """

    def __init__(self, location: str, num_retained: int = 1, permissions: Permissions = Permissions.OWNER) -> None:
        self.folder = local_path(location)
        self.permissions = permissions
        self._num_retained = max(1, num_retained)
        probe(self.folder, permissions)
        _warn_of_strangers(self.folder, permissions)
        self._manifests = self.folder / "manifests"
        self._state = self.folder / "state"
        make_folder(self._manifests, permissions)
        make_folder(self._state, permissions)
        self._sources = self.folder / "sources"
        make_folder(self._sources, permissions)
        self._newest = self._manifests / "newest"
        self._generations = Generations(self.folder / "generations", permissions)
        self._retained: dict[int, frozenset[str]] = {}

    @property
    def state_directory(self) -> str:
        """Where tasks write state files."""
        return str(self._state)

    def source_directory(self, uid: str) -> str:
        """The folder that belongs to one source."""
        return str(self._sources / folder_name(uid))

    def latest(self) -> Manifest | None:
        """The newest manifest; None in a fresh directory.

        Raises:
            CheckpointError: naming the manifest, when it is damaged, has been removed, or is of another job.
        """
        while numbers := self._complete_numbers():
            try:
                return self._read(numbers[-1])
            except FileNotFoundError:  # its owner is alive: it has written the next one and forgotten this
                continue
        return None

    def begin(self, first: Manifest) -> Manifest | None:
        """Become the owner of a directory without manifest; None when somebody has just written one.

        A job that has been started before, but came to no manifest, keeps its id, and so finds what it left elsewhere.
        """
        first = replace(first, job_id=self._generations.job_id() or first.job_id)
        generation = self._generations.claim(first.generation, first.job_id)
        return replace(first, generation=generation) if self.latest() is None else None

    def take_over(self, previous: Manifest) -> Manifest:
        """Become the owner: write the next manifest with the same content and a new generation.

        An older job manager that is still alive loses at its next manifest, whatever it was doing. When it was faster
        and has just written one itself, that one is taken over instead.

        Raises:
            JobSupersededError: when a third job manager has done the same a little later.
        """
        return self._succeed(previous, self._generations.claim(previous.generation + 1, previous.job_id))

    def restart(self, known: Manifest) -> Manifest:
        """Go on from the newest manifest after a failure in the process that owns the directory.

        What that process has in memory may be ahead of the manifests, or behind: a manifest may exist although writing
        it has failed. So it does what a new process would do, which makes the newest manifest durable as well.

        Args:
            known: the newest manifest that the process knows to exist, or what it began a fresh directory with.

        Raises:
            JobSupersededError: when another job manager has taken over.
            CheckpointError: when the manifests are damaged or have been removed.
        """
        generation = self._generations.renew(known.job_id)
        if generation is None:
            raise self._superseded(known)
        newest = self.latest()
        if newest is None and known.epoch:
            raise CheckpointError(f"the manifests of job {known.job_name!r} have been removed from {self.folder}")
        return replace(known, generation=generation) if newest is None else self._succeed(newest, generation)

    def _succeed(self, previous: Manifest, generation: int) -> Manifest:
        """Write the manifest after the newest one, with its content and a new generation."""
        while True:
            newest = self.latest() or previous
            mine = replace(newest, epoch=newest.epoch + 1, generation=generation)
            if self._create(mine):
                break
            self._check_owner(mine)
        self._note(mine.epoch)
        for number in self._numbers():
            with contextlib.suppress(FileNotFoundError):  # the owner before may just forget it
                self._retained[number] = self._needed_by(number)
        return mine

    def _needed_by(self, number: int) -> frozenset[str]:
        try:
            return frozenset(self._read(number).state_files())
        except CheckpointError as error:
            logger.warning("an older manifest is of no use and goes with the next epochs: %s", error)
            return frozenset()

    def is_owned_by(self, generation: int) -> bool:
        """Whether no younger job manager has taken over."""
        return self._generations.is_current(generation)

    def write(self, manifest: Manifest) -> None:
        """Commit an epoch.

        Raises:
            JobSupersededError: when another job manager has taken over the directory.
            InfrastructureError: when an older one, which does not know yet that it is none any more, has just written
                that manifest; :meth:`restart` goes on from it.
        """
        if not self._create(manifest):
            self._check_owner(manifest)
            raise InfrastructureError(
                f"manifest {self._manifest_path(manifest.epoch)} has just been written by an older job manager"
            )
        try:
            self._check_owner(manifest)
        except JobSupersededError:
            # Nobody was told of it. Who has just read it goes on from there, which is as good.
            remove(self._manifest_path(manifest.epoch))
            raise
        self._note(manifest.epoch)
        self._retained[manifest.epoch] = frozenset(manifest.state_files())

    def collect_garbage(self) -> list[str]:
        """Forget all but the newest manifests, and delete the state files that only the forgotten ones needed.

        Returns:
            The names of the deleted state files.
        """
        forgotten = sorted(self._retained)[: -self._num_retained]
        candidates = {file for number in forgotten for file in self._retained.pop(number)}
        needed = frozenset().union(*self._retained.values())
        for number in forgotten:
            remove(self._manifest_path(number))
        deleted = sorted(candidates - needed)
        for name in deleted:
            remove(self._state / name)
        return deleted

    def remove_leftovers(self, generation: int) -> list[str]:
        """Delete state files that no retained manifest needs and that an older generation wrote; unfinished ones, too.

        Returns:
            The names of the deleted files.
        """
        newest = max(self._retained, default=0)
        _remove_unfinished(self._manifests, lambda name: name == "newest" or 0 < number_of(name) <= newest)
        _remove_unfinished(self._state, lambda name: _is_state_before(name, generation))
        needed = frozenset().union(*self._retained.values())
        left = (path for path in sorted(self._state.iterdir()) if path.name not in needed)
        return [path.name for path in left if _is_state_before(path.name, generation) and remove(path)]

    def _create(self, manifest: Manifest) -> bool:
        return create_exclusively(self._manifest_path(manifest.epoch), manifest.to_bytes(), self.permissions)

    def _check_owner(self, manifest: Manifest) -> None:
        if not self.is_owned_by(manifest.generation):
            raise self._superseded(manifest)

    def _superseded(self, manifest: Manifest) -> JobSupersededError:
        return JobSupersededError(
            f"job {manifest.job_name!r}: another job manager has taken over {self.folder}; this one stops and has "
            f"published nothing of epoch {manifest.epoch}"
        )

    def _note(self, number: int) -> None:
        """Leave a note that there was a manifest; lost or outdated it only means less certainty."""
        text = b"%d %08x\n" % (number, crc32(b"%d" % number))
        write_file(self._newest, [text], self.permissions, durable=False)

    def _noted(self) -> int:
        try:
            number, check = self._newest.read_bytes().split()
        except FileNotFoundError:
            return 0
        except IsADirectoryError as error:
            raise CheckpointError(f"{self._newest} is a folder, where a file has its place: remove it") from error
        except ValueError:
            number = check = b""
        if not number or check != b"%08x" % crc32(number):
            logger.warning("%s is damaged: whether a manifest is missing cannot be told", self._newest)
            return 0
        return int(number)

    def _complete_numbers(self) -> list[int]:
        """The numbers of the manifests, the newest of which is really the newest there was."""
        noted = self._noted()
        numbers = self._numbers()
        if noted > max(numbers, default=0):
            raise CheckpointError(
                f"manifest {self._manifest_path(noted)} is missing: output of epochs that are not in {self.folder} has "
                "been published, going on without it would publish them again; put it back, or start with a fresh "
                "checkpoint directory and a fresh output"
            )
        return numbers

    def _manifest_path(self, number: int) -> Path:
        return self._manifests / f"{number:012d}.json"

    def _numbers(self) -> list[int]:
        numbers = (number_of(path.name) for path in self._manifests.iterdir())
        return sorted(number for number in numbers if number)

    def _read(self, number: int) -> Manifest:
        path = self._manifest_path(number)
        try:
            manifest = Manifest.from_bytes(path.read_bytes(), str(path))
        except IsADirectoryError as error:
            raise CheckpointError(f"{path} is a folder, where the manifest of epoch {number} has its place") from error
        if manifest.epoch != number:
            raise CheckpointError(f"manifest {path} is that of epoch {manifest.epoch} under another name: put it back")
        self._generations.check(manifest.generation, manifest.job_id, str(path))
        return manifest

    def close(self) -> None:
        """Nothing is held open."""


def number_of(name: str) -> int:
    """The number of the manifest that has a file name; 0 when it is the name of something else."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else 0


def _remove_unfinished(folder: Path, is_over: Callable[[str], bool]) -> None:
    """Remove what was being written when its writer died, unless a living one may still be at it."""
    for path in folder.iterdir():
        target = target_of_temporary(path.name)
        if target is not None and is_over(target):
            remove(path)


def _is_state_before(name: str, generation: int) -> bool:
    """Whether a name is that of a state file, or of the outcome of a compaction, which an older generation wrote."""
    parsed = VersionName.parse(name) or CompactedName.parse(name)
    return parsed is not None and parsed.generation < generation


def _warn_of_strangers(folder: Path, permissions: Permissions) -> None:
    """A folder that was there before keeps its mode, and who may write to it may put what he likes in our places."""
    meant = permissions.of_folders
    mode = stat.S_IMODE(folder.stat().st_mode)
    if meant is not None and mode & ~meant & 0o022:
        logger.warning(
            "others may write to the checkpoint directory %s (mode %o), and so decide what the job unpickles: chmod %o",
            folder,
            mode,
            meant,
        )
