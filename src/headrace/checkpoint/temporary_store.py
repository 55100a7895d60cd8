"""A checkpoint store for a job without a checkpoint directory: it starts afresh each time and leaves nothing behind.

The newest manifest is kept in memory, so the job can go on from there after a failure, as long as its process lives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.directory import source_folder
from headrace.common.durable import TemporaryFolder
from headrace.storage.folder import posix_folder

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.checkpoint.manifest import Manifest
    from headrace.checkpoint.pins import Pin
    from headrace.storage.folder import Folder


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

    def source_folder(self, uid: str) -> Folder:
        """The folder that belongs to one source; made by whoever needs it."""
        return source_folder(self.storage, uid)

    def latest(self) -> Manifest | None:
        """Always None: nothing is kept from one run to the next."""
        return None

    def begin(self, first: Manifest) -> Manifest:
        """The folder belongs to this process alone."""
        return first

    def is_owned_by(self, generation: int) -> bool:
        """Nobody else knows the folder."""
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

    def left_pins(self) -> dict[str, Pin]:
        """None: nobody had the folder before."""
        return {}

    def lasting_pins(self) -> dict[str, Pin]:
        """None: native savepoints need a directory that outlasts the job."""
        return {}

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
        return frozenset(file for pin in self._pins.values() for file in pin.files)

    def _needed(self) -> frozenset[str]:
        return frozenset() if self._newest is None else frozenset(self._newest.state_files())
