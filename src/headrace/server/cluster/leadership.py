"""The election of a leader among the dispatchers on one storage.

Each that wants to lead claims a generation, as job managers do: a file that is made exclusively, and kept. The one with
the youngest generation leads, and says again and again that it lives. One that stands by claims the next generation
when its lease was not renewed for its duration, by its own clock: clocks of machines are never compared.

A dispatcher that was paused may believe that it leads until it looks again. That does no harm: whatever may be done
once only, such as beginning an attempt to run a job, is a file that is made exclusively.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from headrace.checkpoint.directory import Generations
from headrace.common.logs import get_logger
from headrace.savepoint.requests import JobProcess
from headrace.server.cluster.records import read_json
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_WHO: Final = "dispatcher"

_BEATS: Final = 4
"""The number of signs of life within a lease."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A dispatcher that leads, as it says itself.

    Attributes:
        generation: its generation.
        address: where it is served.
        process: its process.
        beat: how often it has said that it lives.
        has_left: whether it leads no more.
    """

    generation: int
    address: str
    process: JobProcess
    beat: int = 0
    has_left: bool = False


class Leadership:
    """One dispatcher's part in it.

    Args:
        folder: where generations and signs of life are.
        address: where the dispatcher is served.
        lease_seconds: after so long without a sign of life another one takes over.
        clock: returns seconds, never going back.

    Attributes:
        leader: the one that leads, as far as is known; None before the first look.
    """

    def __init__(
        self, folder: Folder, address: str, lease_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._address = address
        self._lease = lease_seconds
        self._clock = clock
        self._generations = Generations(folder)
        self._own: Leader | None = None
        self._said_at = 0.0
        self._heard_at = clock()
        self.leader: Leader | None = None

    @property
    def generation(self) -> int | None:
        """The generation under which this one leads; None while it stands by."""
        return None if self._own is None else self._own.generation

    def look(self) -> bool:
        """Say that this one lives, or look whether another one does.

        Returns:
            Whether this one leads.

        Raises:
            OSError: when the storage cannot be read or written.
        """
        return self._stays() if self._own is not None else self._follows()

    def leave(self) -> None:
        """Lead no more, so that another one can take over at once."""
        if self._own is not None:
            own, self._own = self._own, None
            if self._generations.is_current(own.generation):
                self._write(Leader(own.generation, own.address, own.process, own.beat + 1, has_left=True))

    def _stays(self) -> bool:
        own = self._own
        assert own is not None
        if not self._generations.is_current(own.generation):
            logger.warning("another dispatcher leads now; this one stands by")
            self._own, self.leader, self._heard_at = None, None, self._clock()
            return False
        if self._clock() - self._said_at >= self._lease / _BEATS:
            self._say(own)
        return True

    def _follows(self) -> bool:
        known = self._youngest()
        if known is None or (self.leader is None and known.process.is_gone):
            return self._claim(known)
        if self.leader is None or (known.generation, known.beat) != (self.leader.generation, self.leader.beat):
            self.leader, self._heard_at = known, self._clock()
        if known.has_left or known.process.is_gone or self._clock() - self._heard_at > self._lease:
            return self._claim(known)
        return False

    def _claim(self, before: Leader | None) -> bool:
        generation = self._generations.claim(0 if before is None else before.generation + 1, _WHO)
        if not self._generations.is_current(generation):
            return False
        action = "leads" if before is None else f"takes over from the one at {before.address}"
        logger.info("this dispatcher %s, as generation %d", action, generation)
        self._say(Leader(generation, self._address, JobProcess.present()))
        self._folder.remove_all([name for name in self._folder.names() if _is_sign_before(name, generation)])
        return True

    def _youngest(self) -> Leader | None:
        """The sign of life of the youngest generation; None where there is no generation yet.

        One that has claimed its generation just now may not have given any.
        """
        names = [int(name) for name in self._folder.names() if name.isdecimal()]
        if not names:
            return None
        found = read_json(self._folder, f"{max(names)}.alive")
        if found is None:
            return Leader(max(names), "an unknown address", JobProcess("", 0, ""))
        return Leader(**{**found, "process": JobProcess(**found["process"])})

    def _say(self, own: Leader) -> None:
        said = Leader(own.generation, self._address, own.process, own.beat + 1)
        self._write(said)
        self._own = self.leader = said
        self._said_at = self._clock()

    def _write(self, leader: Leader) -> None:
        self._folder.write(f"{leader.generation}.alive", [json.dumps(asdict(leader)).encode()], durable=False)


def _is_sign_before(name: str, generation: int) -> bool:
    number, _, kind = name.partition(".")
    return kind == "alive" and number.isdecimal() and int(number) < generation
