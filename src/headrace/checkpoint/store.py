"""The checkpoint directory of one job: its manifests, its state files, and its owner.

Layout: ``manifests/<number>.json``, ``state/<file>``, ``sources/<uid>/…``, ``sinks/<uid>/…``, ``generations/<number>``,
``pins/<savepoint>``.
The manifest with the largest number is the state of the job. A manifest is created exclusively, so two job managers
cannot both write number ``n + 1``: the second has been superseded, and so has one that finds a younger generation
than its own.
"""

import contextlib
import uuid
from collections.abc import Collection
from dataclasses import replace
from operator import attrgetter
from typing import Final

from headrace.checkpoint.directory import PINS, Generations, Pin, Pins, probe, warn_if_open_to_others
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import ManifestFolder
from headrace.common.durable import TemporaryFolder
from headrace.common.errors import CheckpointError, InfrastructureError, JobSupersededError
from headrace.state.state_file import CompactedName, SharedName, VersionName
from headrace.storage.folder import Folder, posix_folder, sink_folder, source_folder

LOOK_AT_PINS: Final = 16
"""The number of epochs between looks for disposed savepoints: on an object store that costs a request."""


class CheckpointStore:
    """Reads and writes one checkpoint directory.

    Args:
        storage: the directory, which driver and executors share.
        num_retained: how many manifests are kept, with all that they need.

    Attributes:
        storage: the directory.
        state: the folder for state files.
        outlasts_job: whether what is kept is there when the job has ended.

    Raises:
        CheckpointStorageError: when the folder cannot be used, or does not promise what exactness needs.
    """

    outlasts_job: Final = True

    def __init__(self, storage: Folder, num_retained: int = 1) -> None:
        self.storage = storage
        self._num_retained = max(1, num_retained)
        probe(storage)
        warn_if_open_to_others(storage)
        self.state = storage.folder("state")
        self.state.make()
        self._generations = Generations(storage.folder("generations"))
        self._manifests = ManifestFolder(storage, self._generations)
        self._pins = Pins(storage.folder(PINS))
        self._retained: dict[int, frozenset[str]] = {}
        self._collections = 0

    def latest(self) -> Manifest | None:
        """The newest manifest; None in a fresh directory.

        Raises:
            CheckpointError: naming the manifest, when it is damaged, has been removed, or is of another job.
        """
        return self._manifests.latest()

    def begin(self, first: Manifest) -> Manifest | None:
        """Become the owner of a directory without manifest; None when another job manager has just written one.

        A job that has been started before, but came to no manifest, keeps its id, and so finds what it left elsewhere.
        """
        first = replace(first, job_id=self._generations.job_id() or first.job_id)
        self._pins.take_over()
        generation = self._generations.claim(first.generation, first.job_id)
        return replace(first, generation=generation) if self.latest() is None else None

    def take_over(self, previous: Manifest) -> Manifest:
        """Become the owner: write the next manifest with the same content and a new generation.

        An older job manager that is still alive loses at its next manifest, whatever it was doing. When it was faster
        and has just written one itself, that one is taken over instead.

        Raises:
            JobSupersededError: when a third job manager has done the same a little later.
        """
        generation = self._generations.claim(previous.generation + 1, previous.job_id)
        self._pins.take_over()
        return self._succeed(previous, generation)

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
            raise CheckpointError(f"the manifests of job {known.job_name!r} have been removed from {self.storage}")
        return replace(known, generation=generation) if newest is None else self._succeed(newest, generation)

    def _succeed(self, previous: Manifest, generation: int) -> Manifest:
        """Write the manifest after the newest one, with its content and a new generation."""
        while True:
            newest = self.latest() or previous
            mine = replace(newest, epoch=newest.epoch + 1, generation=generation)
            if self._commit(mine):
                break
        older = {n: self._manifests.read_older(n) for n in self._manifests.numbers() if n < mine.epoch}
        # Every start makes one more of the same content: the first and the last of them will do.
        same = [number for number, old in older.items() if old is not None and _is_copy(mine, old)]
        self._manifests.remove(same[1:])
        kept = {number: old for number, old in older.items() if number not in same[1:]} | {mine.epoch: mine}
        self._retained = {n: frozenset() if old is None else frozenset(old.state_files()) for n, old in kept.items()}
        return mine

    def pin(self, name: str, pin: Pin) -> None:
        """Keep state files that manifests may come to do without; a pin of that name and of these files is replaced."""
        self._pins.add(name, pin)

    def left_pins(self) -> dict[str, Pin]:
        """By name, the pins of savepoints that earlier owners were taking; pinned or dropped, they are not left."""
        return self._pins.left()

    def lasting_pins(self) -> dict[str, Pin]:
        """By name, the pins of native savepoints that are complete."""
        return self._pins.lasting()

    def unpin(self, name: str) -> list[str]:
        """Let go of them; returns the names of those that are deleted, since nothing else needs them."""
        left = self._pins.remove(name)
        return self.state.remove_all(sorted(left.difference(*self._retained.values())))

    def is_owned_by(self, generation: int) -> bool:
        """Return whether no younger job manager has taken over."""
        return self._generations.is_current(generation)

    def write(self, manifest: Manifest) -> None:
        """Commit an epoch.

        Raises:
            JobSupersededError: when another job manager has taken over the directory.
            InfrastructureError: when an older one, which does not know yet that it is none any more, has just written
                that manifest; :meth:`restart` goes on from it.
        """
        if not self._commit(manifest):
            raise InfrastructureError(
                f"manifest {self._manifests.locate(manifest.epoch)} has just been written by an older job manager"
            )
        self._retained[manifest.epoch] = frozenset(manifest.state_files())

    def _commit(self, manifest: Manifest) -> bool:
        """Create a manifest, unless an older job manager has just written it.

        Raises:
            JobSupersededError: when another job manager has taken over the directory.
        """
        try:
            return self._create(manifest)
        except FileNotFoundError:  # a successor removes what older ones have not finished
            self._check_owner(manifest)
            raise

    def _create(self, manifest: Manifest) -> bool:
        created = self._manifests.create(manifest)
        try:
            self._check_owner(manifest)
        except JobSupersededError:
            # It was not announced. As the newest one it stays, and a successor goes on from there, which is as
            # good: a number that came free again could be given to two manifests, one of which others have read.
            # That of a job whose checkpoints were discarded meanwhile has nothing to go on from.
            is_last = manifest.epoch >= max(self._manifests.numbers(), default=0)
            if created and not (is_last and self._generations.job_id() == manifest.job_id):
                self._manifests.remove([manifest.epoch])
            raise
        if created:
            self._manifests.note(manifest.epoch)
        return created

    def collect_garbage(self) -> list[str]:
        """Forget all but the newest manifests, and delete the state files that only the forgotten ones needed.

        So it does with those that native savepoints needed which others have disposed of.

        Returns:
            The names of the deleted state files.
        """
        forgotten = sorted(self._retained)[: -self._num_retained]
        candidates = {file for number in forgotten for file in self._retained.pop(number)}
        if self._collections % LOOK_AT_PINS == 0:
            candidates |= self._pins.forget_disposed()
        self._collections += 1
        needed = frozenset().union(*self._retained.values())
        self._manifests.remove(forgotten)
        deleted = sorted(candidates - needed - self._pins.files)
        self.state.remove_all(deleted)
        return deleted

    def remove_leftovers(self, generation: int) -> list[str]:
        """Delete state files that no retained manifest needs and that an older generation wrote; unfinished ones, too.

        Returns:
            The names of the deleted files.
        """
        self._manifests.remove_unfinished(max(self._retained, default=0))
        self._generations.remove_unfinished(generation)
        # Who has taken over meanwhile may have brought in files of another job, which had generations of its own. So it
        # is checked after the look at what is there: an owner then has seen nothing of others.
        self.state.remove_unfinished(lambda name: _is_state_before(name, generation) and self.is_owned_by(generation))
        needed = self._pins.files.union(*self._retained.values())
        left = [name for name in self.state.names() if name not in needed and _is_state_before(name, generation)]
        return self.state.remove_all(left) if left and self.is_owned_by(generation) else []

    def discard(self, newest: Manifest, uids: Collection[str]) -> None:
        """Delete all manifests and what belongs to them, unless another job manager has taken over.

        The generation that is claimed first is of another job: an older job manager that is still at work has been
        superseded by it, and what starts here next gets its id.

        Args:
            newest: the newest manifest of the owner.
            uids: of all sources and sinks, whose folders are emptied.
        """
        mine = self._generations.renew(uuid.uuid4().hex) if self.is_owned_by(newest.generation) else None
        if mine is None:
            return
        self._manifests.discard()
        if not self.is_owned_by(mine):  # another job manager has started just now, and may have read a manifest
            return
        self._retained.clear()
        self.remove_leftovers(mine)
        for uid in uids:
            for folder in (source_folder(self.storage, uid), sink_folder(self.storage, uid)):
                _empty(folder)

    def _check_owner(self, manifest: Manifest) -> None:
        if not self.is_owned_by(manifest.generation):
            raise self._superseded(manifest)

    def _superseded(self, manifest: Manifest) -> JobSupersededError:
        return JobSupersededError(
            f"job {manifest.job_name!r}: another job manager has taken over {self.storage}; this one stops and has "
            f"published nothing of epoch {manifest.epoch}"
        )

    def close(self) -> None:
        """Nothing is held open."""


def _empty(folder: Folder) -> None:
    with contextlib.suppress(FileNotFoundError):
        for name in folder.names():
            folder.remove(name)


def _is_copy(manifest: Manifest, older: Manifest) -> bool:
    """Return whether a manifest only took over from an older one, or from one that did."""
    return replace(manifest, epoch=older.epoch, generation=older.generation) == older


def _is_state_before(name: str, generation: int) -> bool:
    """Return whether a name is that of a state file, of any kind, which an older generation wrote."""
    parsed = VersionName.parse(name) or CompactedName.parse(name) or SharedName.parse(name)
    return parsed is not None and parsed.generation < generation


class TemporaryStore:
    """Keeps state files in a temporary folder, and the newest manifest in memory.

    The folder goes with :meth:`close`, or, when this process is killed, with the next start of a job on this machine.

    Attributes:
        storage: the folder.
        state: the folder for state files in it.
        outlasts_job: whether what is kept is there when the job has ended.
    """

    outlasts_job: Final = False

    def __init__(self) -> None:
        self._temporary = TemporaryFolder()
        self.storage: Folder = posix_folder(self._temporary.path)
        self.state = self.storage.folder("state")
        self.state.make()
        self._newest: Manifest | None = None
        self._obsolete: set[str] = set()
        self._pins: dict[str, Pin] = {}

    def latest(self) -> Manifest | None:
        """Always None: nothing is kept from one run to the next."""
        return None

    def begin(self, first: Manifest) -> Manifest:
        """The folder belongs to this process alone."""
        return first

    def is_owned_by(self, generation: int) -> bool:
        """No other process has the folder."""
        return True

    def take_over(self, previous: Manifest) -> Manifest:
        """Nothing to take over: the folder belongs to this process alone."""
        return previous

    def restart(self, known: Manifest) -> Manifest:
        """The newest manifest as the next one, under a new generation, as in :class:`CheckpointStore`.

        Args:
            known: what the job began with, in case that it has written no manifest yet.
        """
        if self._newest is None:
            return replace(known, generation=known.generation + 1)
        generation = max(self._newest.generation, known.generation) + 1
        self._newest = replace(self._newest, epoch=self._newest.epoch + 1, generation=generation)
        return self._newest

    def write(self, manifest: Manifest) -> None:
        """Remember the manifest."""
        self._obsolete |= self._needed() - frozenset(manifest.state_files())
        self._newest = manifest

    def pin(self, name: str, pin: Pin) -> None:
        """Keep state files that later epochs may come to do without."""
        self._pins[name] = pin

    def unpin(self, name: str) -> list[str]:
        """Let go of them; those that nothing else needs go with the next garbage."""
        self._pins.pop(name, None)
        return []

    def collect_garbage(self) -> list[str]:
        """Delete the files that only older epochs needed."""
        deleted = sorted(self._obsolete - self._pinned())
        for name in deleted:
            self.state.remove(name)
            self._obsolete.remove(name)
        return deleted

    def remove_leftovers(self, generation: int) -> list[str]:
        """Delete the files of failed epochs: all that the newest manifest does not need."""
        unfinished = self.state.remove_unfinished(lambda name: True)
        needed = self._needed() | self._pinned()
        leftovers = [name for name in self.state.names() if name not in needed]
        self.state.remove_all(leftovers)
        return sorted([*unfinished, *leftovers])

    def discard(self, newest: Manifest, uids: Collection[str]) -> None:
        """Nothing to do: all goes with :meth:`close`."""

    def close(self) -> None:
        """Remove the folder."""
        self._temporary.remove()

    def _pinned(self) -> frozenset[str]:
        return frozenset().union(*map(attrgetter("files"), self._pins.values()))

    def _needed(self) -> frozenset[str]:
        return frozenset() if self._newest is None else frozenset(self._newest.state_files())
