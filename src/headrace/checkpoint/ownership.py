"""Who may write to a checkpoint directory: the job manager that has started last.

Each job manager claims a generation before it writes anything: an empty file, made exclusively and kept for ever. One
that finds a younger generation than its own has been superseded. The names of manifests alone would not do as a fence:
old ones are deleted, so one that wakes up after a long time finds the name of its next manifest free again.
"""

from __future__ import annotations

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
        folder.mkdir(exist_ok=True)

    def claim(self, at_least: int) -> int:
        """A generation that nobody had, and younger than all others."""
        taken = (int(path.name) for path in self._folder.iterdir() if path.name.isdecimal())
        generation = max((number + 1 for number in taken), default=at_least)
        while not create_exclusively(self._folder / str(generation), b""):
            generation += 1
        return generation

    def is_current(self, generation: int) -> bool:
        """Whether there is none younger; they are claimed one after the other, so the next one tells."""
        return not (self._folder / str(generation + 1)).exists()
