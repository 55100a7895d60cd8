"""The journal of a log: reading its commits, one after another, and adding one."""

from __future__ import annotations

import os
import threading
import time
import uuid
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import LogCorruptedError, LogError, ProducerFencedError
from headrace.common.logs import get_logger
from headrace.log.commits import ANONYMOUS, SNAPSHOT_INTERVAL, Author, Commit, LogState, ProducerState, checksum_of
from headrace.log.store import LogStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage.folder import Folder

logger = get_logger(__name__)

_COMMITS_AT_ONCE: Final = 64
"""How many commits are read before somebody looks whether there is a snapshot that is newer."""

_FIRST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 0.05
"""Seconds between two looks for new commits: the longer nothing has come, the more."""

_THOROUGH_SECONDS: Final = 5
"""How often somebody who waits looks for a snapshot too."""


class Journal:
    """The commits of a log, and what they come to. All threads of a process can use one.

    Args:
        folder: of the log.
        clock: tells the time in milliseconds.
        when_due: is called when this process has made the commit with which a snapshot and maintenance are due.

    Raises:
        LogError: when there is no log.
        OSError: when the folder cannot be read.
    """

    def __init__(self, folder: Folder, clock: Callable[[], int], when_due: Callable[[], None]) -> None:
        self.folder = folder
        self.clock = clock
        self.store = LogStore(folder)
        if not self.store.exists():
            raise LogError(f"{folder} is no log: `headrace log create`, or Log.open(…, create=True), makes one")
        self._begin()
        _JOURNALS.add(self)
        self._when_due = when_due

    def __str__(self) -> str:
        return str(self.folder)

    def refresh(self, *, thoroughly: bool = True) -> int:
        """Take in what has been committed.

        Args:
            thoroughly: whether to look for a snapshot too where there is no next commit: its record may be removed when
                this process has not looked for long.

        Returns:
            The version: the number of the last commit.

        Raises:
            LogCorruptedError: when a commit record is damaged or missing.
            OSError: when one cannot be read.
        """
        with self._lock:
            before = self._state.version if self._state else -1
            newest = self.store.newest_commit() if self._state is None else 0
            state = self._read_on(self._state or self._load(), thoroughly=thoroughly)
            if state.version < newest:
                raise LogCorruptedError(
                    f"{self.store.where(state.version + 1)} is missing, and there are later commits, up to {newest}; "
                    "put it back from a copy"
                )
            if state.version != before:
                self._changed.notify_all()
            return state.version

    def state(self) -> LogState:
        """The state of the log, as of the last look at it. Nobody else may change it; look at it under :attr:`lock`."""
        with self._lock:
            if self._state is None:
                self.refresh()
            assert self._state is not None
            return self._state

    @property
    def lock(self) -> threading.RLock:
        """The lock of what this process knows of the log; hold it to see or to change that."""
        return self._lock

    def wait(self, version: int, timeout: float) -> bool:
        """Wait for a commit after a version.

        Args:
            version: the last one that is known.
            timeout: how long at most, in seconds.

        Returns:
            Whether there is one.
        """
        now = time.monotonic()
        until, thorough, pause = now + timeout, now, _FIRST_WAIT
        while self.refresh(thoroughly=now >= thorough) <= version:
            if now >= until:
                return False
            thorough = now + _THOROUGH_SECONDS if now >= thorough else thorough
            with self._changed:
                self._changed.wait(min(pause, until - now))
            now, pause = time.monotonic(), min(2 * pause, _LONGEST_WAIT)
        return True

    # --- changing ----------------------------------------------------------------------------------------------------

    def commit(
        self, author: Author | None, describe: Callable[[LogState], Commit | tuple[Commit, bytes]]
    ) -> ProducerState:
        """Change the log, in one step.

        Who does not know whether a commit was done, after an ``OSError`` say, calls again with the same author: it is
        not done twice.

        Args:
            author: who does so; a sequence that was committed is not committed again. None where that does not matter,
                and the commit alone says it.
            describe: what the commit says, to what the log holds; and records that lie in it. May be asked again, as
                others commit. What it raises ends the attempt.

        Returns:
            What is known of the author then.

        Raises:
            ProducerFencedError: when somebody else has taken over the author's id.
            OSError: when that cannot be told, or not be done.
        """
        with self._lock:
            while True:
                self.refresh()
                state = self.state()
                done = _done(state, author) if author else None
                if done is not None:
                    return done
                described = describe(state)
                commit, inline = described if isinstance(described, tuple) else (described, b"")
                number = state.version + 1
                content = replace(commit, follows=state.checksum).to_bytes(inline)
                if not self.store.create_commit(number, content):
                    continue
                if self._is_covered(number):  # the number was taken long ago, and its record removed since
                    self._load()
                    continue
                self._apply(state, commit, checksum_of(content))
                self._changed.notify_all()
                known = state.producers[commit.author.producer]
                break
        if not number % SNAPSHOT_INTERVAL:
            self._when_due()
        return known

    def change(self, describe: Callable[[Commit, LogState], Commit]) -> None:
        """Change the log in a way that is of no producer.

        Args:
            describe: makes of an empty commit, and what the log holds, the one that is to be.
        """
        with self._lock:  # a sequence that is overtaken by the next one would count as done
            self._changes += 1
            author = Author(self._producer, 0, self._changes)
            self.commit(author, lambda state: describe(Commit(author, self.clock()), state))

    # --- inside ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Know nothing yet; in a fork nothing any more, where nobody holds the lock who held it before."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._state: LogState | None = None
        self._producer = f"{ANONYMOUS}{uuid.uuid4().hex}"
        self._changes = 0

    def _read_on(self, state: LogState, *, thoroughly: bool) -> LogState:
        while True:
            commits = self.store.read_commits(state.version + 1, _COMMITS_AT_ONCE)
            if (commits or thoroughly) and self._is_covered(state.version + 1):
                state = self._load()
                continue
            if thoroughly and not commits:
                self._check_not_put_back(state.version)
            for commit, checksum in commits:
                self._apply(state, commit, checksum)
            if len(commits) < _COMMITS_AT_ONCE:
                return state

    def _load(self) -> LogState:
        self._state = self.store.read_snapshot()
        return self._state

    def _check_not_put_back(self, version: int) -> None:
        """See whether what this process has seen is still there.

        Raises:
            LogCorruptedError: when it is not; the next look begins with what there is.
        """
        if version and not self.store.has_commit(version) and not self._is_covered(version):
            self._state = None
            raise LogCorruptedError(
                f"{self.store.where(version)} is gone, which this process has seen: an older copy of the log has "
                "taken its place, and what was committed since that copy is lost"
            )

    def _apply(self, state: LogState, commit: Commit, checksum: int) -> None:
        try:
            state.apply(commit, checksum, self.store.where(state.version + 1))
        except BaseException:
            self._state = None  # half of it may be done
            raise

    def _is_covered(self, number: int) -> bool:
        """Tell whether there is a snapshot that is as new as a commit."""
        versions = self.store.snapshot_versions()
        return bool(versions) and versions[-1] >= number

    def write_snapshot(self) -> None:
        """Write down what the log holds; the commit is done, whatever comes of that."""
        try:
            with self._lock:
                state = self.state().to_json()
            self.store.write_snapshot(state)
        except OSError as error:
            logger.warning("%s: no snapshot could be written: %s", self, error)


_JOURNALS: Final = weakref.WeakSet[Journal]()


def _begin_all() -> None:
    for journal in list(_JOURNALS):
        journal._begin()


os.register_at_fork(after_in_child=_begin_all)


def _done(state: LogState, author: Author) -> ProducerState | None:
    """The state of an author whose commit was done already; None where it was not.

    Raises:
        ProducerFencedError: when the id is another's now.
    """
    known = state.producers.get(author.producer)
    if known is None:
        return None
    if known.epoch > author.epoch:
        raise ProducerFencedError(
            f"producer {author.producer!r} of epoch {author.epoch} is fenced: a producer with the same transactional "
            f"id has begun since (epoch {known.epoch}); this one has to stop"
        )
    return known if known.epoch == author.epoch and known.sequence >= author.sequence else None
