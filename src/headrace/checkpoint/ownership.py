"""Who may write to a checkpoint directory: the job manager that has started last.

Each job manager claims a generation before it writes anything: a file with its mark, made exclusively and kept for
ever. One that finds a younger generation of somebody else's has been superseded. The names of manifests alone would not
do as a fence: old ones are deleted, so one that wakes up after a long time finds the name of its next manifest free
again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from headrace.checkpoint.files import create_exclusively

if TYPE_CHECKING:
    from pathlib import Path


class Generations:
    """The generations of one checkpoint directory.

    Args:
        folder: where they are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = uuid.uuid4().hex.encode()
        folder.mkdir(exist_ok=True)

    def claim(self, at_least: int) -> int:
        """A generation that nobody had, and younger than all others."""
        generation = max((number + 1 for number in self._taken()), default=at_least)
        while not create_exclusively(self._folder / str(generation), self._mark):
            generation += 1
        return generation

    def renew(self) -> int | None:
        """The generation after one's own; None when the youngest is somebody else's."""
        while self._is_own(youngest := max(self._taken())):
            if create_exclusively(self._folder / str(youngest + 1), self._mark):
                return youngest + 1
        return None

    def is_current(self, generation: int) -> bool:
        """Whether nobody else has a younger one; they are claimed one after the other, so the next one tells.

        One's own may be younger: claimed, but not known to be, as an error came after its file had come into being.
        """
        younger = generation + 1
        while (self._folder / str(younger)).exists():
            if not self._is_own(younger):
                return False
            younger += 1
        return True

    def _is_own(self, generation: int) -> bool:
        return (self._folder / str(generation)).read_bytes() == self._mark

    def _taken(self) -> list[int]:
        return [int(path.name) for path in self._folder.iterdir() if path.name.isdecimal()]
