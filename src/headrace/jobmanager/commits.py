"""The second phase: sinks commit after the manifest exists, in epoch order, beside the epochs that follow."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.manifest import PendingCommit
from headrace.common import options
from headrace.common.errors import CommitRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.connectors.sink import Committer

MAX_PENDING_EPOCHS = 3
"""So many epochs may wait for their sinks; then the job waits as well."""

_FIRST_RETRY_SECONDS = 0.1
_LAST_RETRY_SECONDS = 10.0
_ATTEMPTS = 8
_TICK_MILLIS = 1_000


class CommitCoordinator:
    """Commits what sinks prepared, on a thread of its own.

    Args:
        committers: by uid of the sink.
        durable: the sinks whose committables belong into the manifest.
        names: the sinks' names, for errors.
        sleep: waits between two attempts; tests pass their own.
    """

    def __init__(
        self,
        committers: Mapping[str, Committer],
        durable: frozenset[str],
        names: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._committers = committers
        self._durable = durable
        self._names = names
        self._sleep = sleep
        self._unacknowledged: deque[PendingCommit] = deque()
        self._lock = threading.Condition()
        self._work: queue.SimpleQueue[list[PendingCommit] | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._waiting_epochs = 0
        self._next_tick = 0
        self._thread = threading.Thread(target=self._run, name="headrace-committer", daemon=True)
        self._thread.start()

    def pending(self, new: Sequence[PendingCommit] = ()) -> tuple[PendingCommit, ...]:
        """What the next manifest has to hold: everything durable that nobody has acknowledged, and what is new."""
        with self._lock:
            return tuple(commit for commit in (*self._unacknowledged, *new) if commit.sink in self._durable)

    def submit(self, commits: Sequence[PendingCommit]) -> None:
        """The manifest that holds these exists: commit them. Waits when too many epochs are pending.

        Raises:
            CommitRefusedError: when an earlier commit was refused for good.
            OSError: when an earlier commit could not be done in many attempts.
        """
        self.check()
        if not commits:
            return
        with self._lock:
            self._unacknowledged.extend(commits)
            self._waiting_epochs += 1
            self._work.put(list(commits))
            while self._waiting_epochs > MAX_PENDING_EPOCHS and self._failure is None:
                self._lock.wait()
        self.check()

    def tick(self, epoch: int, processing_time: int) -> None:
        """Time goes on: let sinks that hold results back look at the clock, once a second at most."""
        with self._lock:
            if self._waiting_epochs or processing_time < self._next_tick:
                return
            self._next_tick = processing_time + _TICK_MILLIS
            self._waiting_epochs += 1
            self._work.put([PendingCommit(epoch, sink, processing_time, ()) for sink in sorted(self._durable)])

    def check(self) -> None:
        """Raise what a commit failed with."""
        if self._failure is not None:
            raise self._failure

    def drain(self) -> None:
        """Wait until everything is committed.

        Raises:
            CommitRefusedError: when a commit was refused for good.
        """
        with self._lock:
            while self._waiting_epochs and self._failure is None:
                self._lock.wait()
        self.check()

    @property
    def waiting_epochs(self) -> int:
        """How many epochs wait for their sinks."""
        return self._waiting_epochs

    def recover(self, generation: int) -> None:
        """After everything pending is committed: let sinks remove what failed attempts left."""
        self.drain()
        for committer in self._committers.values():
            committer.recover(generation)

    def finish(self) -> None:
        """The job has ended: commit the rest and let sinks publish what they held back."""
        self.drain()
        for committer in self._committers.values():
            committer.finish()

    def close(self) -> None:
        """Stop the thread; what is not committed stays in the manifest."""
        self._work.put(None)
        self._thread.join()
        for committer in self._committers.values():
            committer.close()

    def _run(self) -> None:
        while (commits := self._work.get()) is not None:
            if self._failure is None:
                try:
                    for commit in commits:
                        self._commit(commit)
                except BaseException as error:  # raised again in the job manager's thread
                    self._failure = error
            with self._lock:
                self._waiting_epochs -= 1
                self._lock.notify_all()

    def _commit(self, commit: PendingCommit) -> None:
        committer = self._committers.get(commit.sink)
        if committer is None:
            raise CommitRefusedError(
                f"epoch {commit.epoch} has committables of a sink with uid {commit.sink}, which the program no longer "
                "has; add it again (same uid) and let the job run once, then take it out; to leave them unpublished "
                f"for good, set {options.IGNORE_UNCLAIMED_STATE.key}=true"
            )
        self._attempt(committer, commit)
        if commit.committables:
            with self._lock:
                self._unacknowledged.remove(commit)

    def _attempt(self, committer: Committer, commit: PendingCommit) -> None:
        delay = _FIRST_RETRY_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                committer.commit(commit.epoch, commit.committables, commit.processing_time)
                return
            except CommitRefusedError as error:
                raise CommitRefusedError(
                    f"sink {self._names[commit.sink]!r} (uid {commit.sink}), epoch {commit.epoch}: {error}"
                ) from error
            except OSError:
                if attempt == _ATTEMPTS:
                    raise
                self._sleep(delay)
                delay = min(delay * 2, _LAST_RETRY_SECONDS)


def commits_of(epoch: int, processing_time: int, by_sink: Mapping[str, Sequence[Any]]) -> list[PendingCommit]:
    """The committables of an epoch, one entry for each sink that has any."""
    return [
        PendingCommit(epoch, sink, processing_time, tuple(committables))
        for sink, committables in by_sink.items()
        if committables
    ]
