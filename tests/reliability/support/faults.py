"""Faults that are planned before a job starts and happen once, in whichever process comes to them first.

Everything is kept in files, each made exclusively: what has happened is known after any process has died, and to every
process of a cluster on this machine. A test compares what has happened with what was planned, and so proves that it
has tested something.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NoReturn


class FaultPlan:
    """The faults of one test.

    A *point* is a place that programs come by; a *visit* is the how-manyth time, counted over all processes.

    Args:
        folder: where the plan is kept.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        for name in ("planned", "visits", "happened"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)

    def arm(self, point: str, *visits: int) -> FaultPlan:
        """Plan a fault at each of the given visits of a point."""
        for visit in visits:
            (self._folder / "planned" / f"{point}@{visit}").touch()
        return self

    def strikes(self, point: str) -> bool:
        """Count a visit; whether a fault was planned for it, which has happened with that."""
        name = f"{point}@{self._visit(point)}"
        planned = (self._folder / "planned" / name).exists()
        if planned:
            (self._folder / "happened" / name).touch()
        return planned

    def visits(self, point: str) -> int:
        """How often programs came by a point."""
        return sum(1 for path in (self._folder / "visits").iterdir() if path.name.rpartition("@")[0] == point)

    @property
    def planned(self) -> list[str]:
        """All faults, as ``point@visit``."""
        return sorted(path.name for path in (self._folder / "planned").iterdir())

    @property
    def happened(self) -> list[str]:
        """The faults that have happened."""
        return sorted(path.name for path in (self._folder / "happened").iterdir())

    def _visit(self, point: str) -> int:
        visit = self.visits(point) + 1
        while not _create(self._folder / "visits" / f"{point}@{visit}"):
            visit += 1
        return visit

    def __repr__(self) -> str:
        return f"FaultPlan({str(self._folder)!r})"


def die() -> NoReturn:
    """End this process as a power failure would: nothing is closed, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _create(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
