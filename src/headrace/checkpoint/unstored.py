"""A checkpoint store for a job without a checkpoint directory: it starts afresh each time and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.temporary import TemporaryFolder

if TYPE_CHECKING:
    from headrace.checkpoint.manifest import Manifest


class TemporaryStore:
    """Keeps state files in a temporary folder and manifests nowhere.

    The folder goes with :meth:`close`, or, when this process is killed, with the next start of a job on this machine.
    """

    def __init__(self) -> None:
        self._temporary = TemporaryFolder()
        self._folder = self._temporary.path
        self._state = self._folder / "state"
        self._state.mkdir()
        self._needed: frozenset[str] = frozenset()
        self._obsolete: frozenset[str] = frozenset()

    @property
    def state_directory(self) -> str:
        """Where tasks write state files."""
        return str(self._state)

    def source_directory(self, uid: str) -> str:
        """The folder that belongs to one source."""
        return str(self._folder / "sources" / uid)

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

    def write(self, manifest: Manifest) -> None:
        """Remember which files the newest epoch needs."""
        self._obsolete = self._needed - frozenset(manifest.state_files())
        self._needed = frozenset(manifest.state_files())

    def collect_garbage(self) -> list[str]:
        """Delete the files that the newest epoch no longer needs."""
        for name in self._obsolete:
            (self._state / name).unlink(missing_ok=True)
        return sorted(self._obsolete)

    def remove_leftovers(self, generation: int) -> list[str]:
        """There are none in a new folder."""
        return []

    def close(self) -> None:
        """Remove the folder."""
        self._temporary.remove()
