"""Where a process that runs a job is killed: before some step that changes a folder of a certain kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from headrace.connectors.file_system.staging import StagingArea
from headrace.state.hashmap_backend import HashMapBackend
from headrace.storage.folder import Folder
from tests.reliability.support.faults import die

KINDS: Final[dict[str, Callable[[str], bool]]] = {
    "any": lambda path: True,
    "savepoint": lambda path: "/savepoint-" in path,
    "pin": lambda path: path.endswith("/pins"),
    "manifest": lambda path: path.endswith(("/manifests", "/generations")),
    "sources": lambda path: "/sources/" in path,
}
"""By name, which folders count."""

COMPACTION: Final = "compaction"
"""Before or after work beside the epochs that merges runs of state."""

OUTPUT: Final = "output"
"""Before a step that publishes output."""

_CHANGES: Final = ("create", "write", "remove")


@dataclass(frozen=True)
class KillPoint:
    """A place where a process dies.

    Attributes:
        kind: the kind of step; empty for nowhere.
        steps: so many of them are done.
    """

    kind: str = ""
    steps: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.steps}"

    @staticmethod
    def of(text: str) -> KillPoint:
        """What :meth:`__str__` gave."""
        kind, _, steps = text.partition(":")
        return KillPoint(kind, int(steps or 0))

    def arm(self) -> None:
        """This process dies there."""
        left = [self.steps]

        def come_by() -> None:
            left[0] -= 1
            if left[0] < 0:
                die()

        if self.kind == COMPACTION:
            _watch(HashMapBackend, "run_compaction", lambda _: True, come_by)
        elif self.kind == OUTPUT:
            for name in ("publish", "write_for_publishing", "clear_publishing_folder"):
                _watch(StagingArea, name, lambda _: True, come_by)
        elif self.kind:
            for name in _CHANGES:
                _watch(Folder, name, lambda folder: KINDS[self.kind](str(folder)), come_by)


def _watch(owner: Any, name: str, counts: Callable[[Any], bool], come_by: Callable[[], None]) -> None:
    done = getattr(owner, name)

    @wraps(done)
    def step(self: Any, *arguments: Any, **more: Any) -> Any:
        if counts(self):
            come_by()
        return done(self, *arguments, **more)

    setattr(owner, name, step)
