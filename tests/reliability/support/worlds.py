"""The world of the long job: what it reads, its lives, its savepoints, and what is to be seen of its output.

Whenever the job starts from a savepoint it gets another checkpoint directory and another output: a *branch*. What is
right for a branch begins with what the one before it had shown when the savepoint was taken.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.common.errors import SavepointMissingError
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import METADATA, read_metadata
from headrace.savepoint.requests import JobAnswer, JobRequest, ask
from headrace.storage.locations import open_storage
from tests.processes import PATIENCE, Ended, Running
from tests.reliability.support.kill_points import KillPoint
from tests.reliability.support.long_job import Input
from tests.reliability.support.outputs import hidden_files, parts
from tests.reliability.support.reporting import said as said_so_far

PROGRAM: Final = "long_job"
SINKS: Final = ("ledger", "said")


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that was completed.

    Attributes:
        place: where it is.
        branch: whose it is.
        epoch: the epoch at whose end the job is in it.
        format: canonical or native.
    """

    place: str
    branch: Branch
    epoch: int
    format: str


@dataclass(frozen=True)
class Branch:
    """A job with a checkpoint directory and an output of its own.

    Attributes:
        folder: where both are.
        backend: its state backend.
        start: what it begins with; None for nothing.
        claims: whether that belongs to it from then on.
    """

    folder: Path
    backend: str
    start: Savepoint | None = None
    claims: bool = False

    def lines(self, upto: int | None = None) -> Iterator[str]:
        """What is to be seen, in the branches before it too, up to an epoch of this one."""
        if self.start is not None:
            yield from self.start.branch.lines(self.start.epoch)
        for part in (part for sink in SINKS for part in parts(self.folder / "output" / sink)):
            if upto is None or part.last <= upto:
                yield from part.path.read_text().splitlines()
            else:
                assert part.first > upto, f"{part.path} has output of before and after a savepoint of epoch {upto}"

    @property
    def has_begun(self) -> bool:
        """Whether it has a checkpoint of its own."""
        return any((self.folder / "checkpoints" / "manifests").glob("[0-9]*.json"))


@dataclass
class World:
    """All of it.

    Attributes:
        folder: where everything is.
        launch: starts a program with an argument.
        runtime: what runs the job.
        seed: of the input.
        lives: what has become of them, by their kind.
    """

    folder: Path
    launch: Callable[[str, str], Running]
    runtime: str
    seed: int
    lives: Counter[str] = field(default_factory=Counter)
    running: Running | None = None

    def __post_init__(self) -> None:
        self.input = Input(self.folder / "in", self.seed)
        self.input.publish()
        self.branches = [Branch(self.folder / "b0", "hashmap")]
        self._known: dict[str, Savepoint] = {}

    @property
    def branch(self) -> Branch:
        """That which goes on."""
        return self.branches[-1]

    # --- lives -------------------------------------------------------------------------------------------------------

    def start(self, parallelism: int, kill: str = "", action: str = "", *, ends: bool = False) -> Running:
        """Begin a life."""
        branch = self.branch
        settings = {
            "input": str(self.input.folder),
            "output": str(branch.folder / "output"),
            "checkpoints": str(branch.folder / "checkpoints"),
            "savepoints": str(branch.folder / "savepoints"),
            "runtime": self.runtime,
            "backend": branch.backend,
            "parallelism": parallelism,
            "start": "" if branch.start is None else branch.start.place,
            "claim": branch.claims,
            "ends": ends,
            "kill": kill,
            "action": action,
        }
        self.running = self.launch(PROGRAM, json.dumps(settings))
        return self.running

    def kill(self, *, may_stop: bool = False) -> None:
        """End a life with SIGKILL, unless it may have stopped by itself and has."""
        assert self.running is not None
        self.over(self.running.kill(), may_stop=may_stop)

    def over(self, ended: Ended, *, may_stop: bool = False) -> None:
        """A life has ended: it was killed, unless it may have stopped by itself. What it has told is true."""
        assert ended.code == -9 or (may_stop and ended.code == 0), ended
        self.running = None
        self.lives["killed" if ended.code else "stopped"] += 1
        self.lives["rescaled"] += "rescaled" in ended.output.splitlines()
        found = self.savepoints()
        for line in ended.output.splitlines():
            if line.startswith(("savepoint ", "stopped ")):
                assert line.partition(" ")[2] in {savepoint.place for savepoint in found}, line

    def live(self, parallelism: int, kill: KillPoint, action: str, seconds: float) -> None:
        """A life that dies at a point, or after so many seconds where it does not come there."""
        running = self.start(parallelism, str(kill), action)
        _until(lambda: running.code is not None or "started" in running.output, PATIENCE)
        self.input.publish()
        end = time.monotonic() + seconds
        while running.code is None and time.monotonic() < end:
            time.sleep(0.005)
        self.over(running.wait() if running.code is not None else running.kill(), may_stop=action.startswith("stop"))

    def wait_until_started(self) -> None:
        """Until the job runs."""
        assert self.running is not None
        self.running.wait_until("started")

    def ask(self, request: JobRequest, seconds: float) -> JobAnswer:
        """Ask the job for something, from another process than its own."""
        directory = open_storage(str(self.branch.folder / "checkpoints"))
        return ask(directory, request, accept_seconds=seconds, timeout_seconds=seconds)

    # --- savepoints --------------------------------------------------------------------------------------------------

    def savepoints(self) -> list[Savepoint]:
        """Those that are complete, the newest last; whatever else there is cannot be started from."""
        found = []
        for branch in self.branches:
            for path in sorted((branch.folder / "savepoints").glob("savepoint-*")):
                if (path / METADATA).exists():
                    found.append(self._savepoint(branch, path))
                else:
                    _is_none(path)
        order = list(self._known)
        return sorted(found, key=lambda savepoint: order.index(savepoint.place))

    def half_ones(self) -> list[Path]:
        """What is left in the present branch of savepoints that were not completed."""
        found = (self.branch.folder / "savepoints").glob("savepoint-*")
        return [path for path in found if not (path / METADATA).exists()]

    def restore(self, savepoint: Savepoint, backend: str, *, claims: bool) -> None:
        """The next life is the first one of another branch."""
        assert savepoint.format == "canonical" or backend == savepoint.branch.backend
        self.branches.append(Branch(self.folder / f"b{len(self.branches)}", backend, savepoint, claims))
        self.lives[f"restored from {savepoint.format}"] += 1
        self.lives["claimed"] += claims

    def dispose(self, savepoint: Savepoint) -> None:
        """Remove a savepoint; again it is none."""
        folder = open_storage(savepoint.place)
        dispose(folder, open_storage)
        assert not Path(savepoint.place).exists()
        _is_none(Path(savepoint.place))

    def _savepoint(self, branch: Branch, path: Path) -> Savepoint:
        if str(path) not in self._known:
            metadata = read_metadata(open_storage(str(path)))
            self._known[str(path)] = Savepoint(str(path), branch, metadata.checkpoint.epoch, metadata.format)
            self.lives[f"{metadata.format} savepoints"] += 1
        return self._known[str(path)]

    # --- what is right -----------------------------------------------------------------------------------------------

    def check(self) -> Counter[str]:
        """Nothing is to be seen that should not be, or more often than it should; gives what is not to be seen yet."""
        truth = self.input.truth()
        said = Counter(self.branch.lines())
        # What is open at the end of what has been published may still grow.
        open_ends = tuple(f"{kind}|" for kind in ("book", "window", "session"))
        wrong = {line for line in said - truth if not line.startswith(open_ends) or said[line] > 1}
        assert not wrong, f"{len(wrong)} lines are wrong or said twice, such as {sorted(wrong)[:3]}"
        return truth - said

    def finish(self) -> None:
        """Let the job find all there is, and then read that to its end: it has said all by then, and nothing else."""
        self.start(4).wait_until(said_so_far(self.input.count), timeout=2 * PATIENCE)
        self.kill()
        ended = self.start(3, ends=True).wait(2 * PATIENCE)
        assert ended.code == 0, ended
        self.running = None
        missing, said = self.check(), Counter(self.branch.lines())
        assert not missing, f"{missing.total()} lines are missing, such as {sorted(missing)[:3]}"
        assert said == self.input.truth()
        assert self.half_ones() == []
        for sink in SINKS:
            assert not hidden_files(self.branch.folder / "output" / sink)


def _is_none(path: Path) -> None:
    try:
        read_metadata(open_storage(str(path)))
    except SavepointMissingError:
        return
    raise AssertionError(f"{path} was not completed, and is read as a savepoint")


def _until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
