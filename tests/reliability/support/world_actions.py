"""What may be done to the world of the long job, and when: sequences of it are drawn by a seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.common.errors import SavepointError
from headrace.savepoint.requests import JobRequest
from tests.reliability.support.worlds import Savepoint, World
from tests.waiting import PATIENCE

PARALLELISM: Final = (1, 4, 3)
FORMATS: Final = ("canonical", "native")
BACKENDS: Final = ("hashmap", "rocksdb")

"""Seconds that a job has for what it is asked, also on a machine that has a lot else to do."""

KILLED: Final = 0.1
"""How often a job is killed while it does something."""


@dataclass
class Actor:
    """Does one thing after the other.

    Attributes:
        world: what it is done to.
        chance: draws what comes next.
        done: what has been done, in words.
    """

    world: World
    chance: random.Random
    done: list[str] = field(default_factory=list)

    def act(self) -> None:
        """Do something that can be done now."""
        found = [action for action in ACTIONS if ACTIONS[action][0](self)]
        action = self.chance.choices(found, [ACTIONS[action][1] for action in found])[0]
        self.done.append(action)
        ACTIONS[action][2](self)

    # --- what can be done --------------------------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        return self.world.running is not None

    @property
    def rests(self) -> bool:
        return not self.runs

    @property
    def may_begin_anew(self) -> bool:
        return self.rests and bool(self.world.savepoints())

    @property
    def may_dispose(self) -> bool:
        return bool(self._not_needed())

    def start(self) -> None:
        self.world.start(self.chance.choice(PARALLELISM))
        if self.chance.random() < KILLED:
            threading.Event().wait(self.chance.uniform(0.0, 0.5))
            self.kill()
        else:
            self.world.wait_until_started()

    def kill(self) -> None:
        self.world.kill()

    def ingest(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.world.input.publish()

    def savepoint(self) -> None:
        self._ask(JobRequest(self._target, self.chance.choice(FORMATS)))

    def stop(self) -> None:
        if self._ask(JobRequest(self._target, self.chance.choice(FORMATS), stops=True)):
            assert self.world.running is not None
            self.world.over(self.world.running.wait(), may_stop=True)

    def rescale(self) -> None:
        self._ask(JobRequest("", parallelism=self.chance.choice(PARALLELISM)))

    def restore(self) -> None:
        savepoint = self.chance.choice(self.world.savepoints()[-4:])
        backend = self.chance.choice(BACKENDS) if savepoint.format == "canonical" else savepoint.branch.backend
        self.world.restore(savepoint, backend, claims=self.chance.random() < 0.3)
        self.start()

    def dispose(self) -> None:
        self.world.dispose(self.chance.choice(self._not_needed()))

    def validate(self) -> None:
        self.world.check()

    # --- how ---------------------------------------------------------------------------------------------------------

    @property
    def _target(self) -> str:
        return str(self.world.branch.folder / "savepoints")

    def _not_needed(self) -> list[Savepoint]:
        """The savepoints that no job is to begin with any more."""
        branch = self.world.branch
        return [each for each in self.world.savepoints() if each != branch.start or branch.has_begun]

    def _ask(self, request: JobRequest) -> bool:
        """Ask the job for something; False when it is killed meanwhile."""
        if self.chance.random() >= KILLED:
            answer = self.world.ask(request, PATIENCE)
            assert not answer.error, answer
            assert not request.directory or (Path(answer.savepoint) / "_metadata.json").exists()
            return True
        self.done[-1] += ", killed"
        may_stop = {"may_stop": request.stops}  # a job that is asked to may be faster
        killing = threading.Timer(self.chance.uniform(0.0, 0.4), self.world.kill, kwargs=may_stop)
        killing.start()
        try:
            self.world.ask(request, 1.0)
        except SavepointError:
            pass
        finally:
            killing.join()
        return False


ACTIONS: Final[dict[str, tuple[Callable[[Actor], bool], int, Callable[[Actor], None]]]] = {
    "start": (lambda actor: actor.rests, 6, Actor.start),
    "restore": (lambda actor: actor.may_begin_anew, 4, Actor.restore),
    "ingest": (lambda actor: True, 4, Actor.ingest),
    "savepoint": (lambda actor: actor.runs, 4, Actor.savepoint),
    "stop": (lambda actor: actor.runs, 2, Actor.stop),
    "rescale": (lambda actor: actor.runs, 3, Actor.rescale),
    "kill": (lambda actor: actor.runs, 1, Actor.kill),
    "dispose": (lambda actor: actor.may_dispose, 1, Actor.dispose),
    "validate": (lambda actor: True, 2, Actor.validate),
}
"""By name: when something can be done, how often it is, and doing it."""
