"""The journal of a log and its folder: commit records, snapshots of what they come to, and files of records.

A file is never changed. Commit records that a snapshot covers are removed, so a name may be free again for a process
that has stood still for that long: it could create a record that is never read, or read one. Hence the rule: whatever
is read or created under a number counts only if afterwards no snapshot is found that is as new. Before a record is
removed there always is such a snapshot.
"""

import contextlib
import hashlib
import os
import re
import threading
import time
import uuid
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from headrace.common.errors import ConfigurationError, LogCorruptedError, LogError, ProducerFencedError
from headrace.common.logs import get_logger
from headrace.common.type_variables import T
from headrace.log.commits import (
    ANONYMOUS,
    SNAPSHOT_INTERVAL,
    SUFFIX,
    Author,
    Commit,
    LogState,
    ProducerState,
    checksum_of,
    commit_name,
    commit_number,
    framed,
    unframed,
)
from headrace.log.records import SegmentReader
from headrace.storage.folder import Folder

logger = get_logger(__name__)

CHUNKS: Final = "arrow"
"""The ending of the names of files of records."""

_ANY_EPOCH: Final = "any"

_NAME: Final = re.compile(
    rf"([0-9]{{20}})-[0-9a-f]{{32}}(?:-([0-9a-f]{{16}})-([0-9]+|{_ANY_EPOCH})-([0-9]+))?\.{CHUNKS}"
)


class StagedFor(NamedTuple):
    """The only commit that may publish a file of records, which are nowhere else.

    Attributes:
        tag: stands for the producer that commits them; see :func:`tag_of`.
        epoch: that of the producer; None where a later one may do so as well.
        sequence: of the commit.
    """

    tag: str
    epoch: int | None
    sequence: int


def new_chunk(version: int, staged_for: StagedFor | None = None) -> str:
    """Make a name for a file of records.

    Args:
        version: of the log as its writer knows it.
        staged_for: the commit; None where the writer still has the records, and writes them anew if it has to.
    """
    name = f"{version:020}-{uuid.uuid4().hex}"
    if staged_for is not None:
        epoch = _ANY_EPOCH if staged_for.epoch is None else staged_for.epoch
        name += f"-{staged_for.tag}-{epoch}-{staged_for.sequence}"
    return f"{name}.{CHUNKS}"


def read_name(name: str) -> tuple[int, StagedFor | None]:
    """The version at which a file of records was written, and the commit that it was staged for, if it was for one.

    For the name of something else the version is 0.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return 0, None
    version, tag, epoch, sequence = found.groups()
    commit = StagedFor(tag, None if epoch == _ANY_EPOCH else int(epoch), int(sequence)) if tag else None
    return int(version), commit


def may_be_gone(name: str, state: LogState) -> bool:
    """Tell whether a file was written so long ago that it is removed unless something refers to it."""
    version, commit = read_name(name)
    return commit is None and version < state.oldest_staged


def abandoned(names: list[str], state: LogState) -> list[str]:
    """Select the files of records that cannot be committed any more; something may refer to them all the same.

    Of one that was staged for a commit the log itself has to say so, however old it is: that commit was done, or a
    later one, or the producer is fenced. Clocks say nothing of that.
    """
    known = {tag_of(producer): each for producer, each in state.producers.items()}

    def is_over(name: str) -> bool:
        commit = read_name(name)[1]
        if commit is None:
            return may_be_gone(name, state)
        producer = known.get(commit.tag)
        if producer is None:
            return False
        if commit.epoch is not None and producer.epoch != commit.epoch:
            return producer.epoch > commit.epoch
        return producer.sequence >= commit.sequence

    return [name for name in names if is_over(name)]


def tag_of(producer: str) -> str:
    """The tag of a producer in file names: a hash, as its id may have any characters."""
    return hashlib.blake2b(producer.encode(), digest_size=8).hexdigest()


_CLAIM: Final = "maintenance"

_LIFE: Final = 2_048
"""After how many commits a claim that was not renewed expires."""

_BEAT: Final = 256
"""After how many commits a claim is renewed."""


class MaintenanceClaim:
    """The claim of one process to do a log's maintenance, so that of many processes one does it.

    Args:
        folder: where it lies.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._owner = uuid.uuid4().hex
        self._version: int | None = None

    @contextlib.contextmanager
    def held(self, version: int) -> Iterator[bool]:
        """Hold the claim for a round; gives False if another process has it.

        Args:
            version: of the log.
        """
        is_mine = self._take(version)
        self._version = version if is_mine else None
        try:
            yield is_mine
        finally:
            self._version = None
            if is_mine and self._read()[0] == self._owner:
                self._folder.remove(_CLAIM)

    def renew(self, version: int) -> None:
        """Renew the claim if this process holds it and has not renewed it of late."""
        if self._version is not None and version >= self._version + _BEAT:
            self._version = version
            self._folder.write(_CLAIM, (self._content(version),), durable=False)

    def _take(self, version: int) -> bool:
        if self._folder.create(_CLAIM, self._content(version)):
            return True
        owner, since = self._read()
        if owner != self._owner and abs(version - since) < _LIFE:  # one of far ahead is of a log that was put back
            return False
        self._folder.remove(_CLAIM)
        return self._folder.create(_CLAIM, self._content(version))

    def _read(self) -> tuple[str, int]:
        """The holder of the claim and the version of its last renewal; this process where it cannot be read."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            owner, version = self._folder.read(_CLAIM).decode().split()
            return owner, int(version)
        return self._owner, 0

    def _content(self, version: int) -> bytes:
        return f"{self._owner} {version}".encode()


_MARK: Final = "headrace-log"
"""The file that marks a folder as a log."""

_FOLDERS: Final = ("commits", "snapshots", "records", "heartbeats")

_SNAPSHOT: Final = re.compile(r"([0-9]{20})\.snapshot")

_KEPT_SNAPSHOTS: Final = 2

_TRIES: Final = 100
"""The number of tries to read a snapshot before a newer one takes its place."""


def make_log(folder: Folder) -> bool:
    """Make a folder a log, unless it is one.

    Returns:
        Whether this call did.

    Raises:
        ConfigurationError: when there is something else in it.
        OSError: when it cannot be made.
    """
    folder.make()
    if not is_log(folder) and _has_others(folder) and not is_log(folder):
        raise ConfigurationError(f"{folder} is no log, and not empty: a log needs a folder of its own")
    for name in _FOLDERS:
        folder.folder(name).make()
    return folder.create(_MARK, framed({"log": uuid.uuid4().hex}))


def _has_others(folder: Folder) -> bool:
    """Tell whether a folder holds more than what a killed call of :func:`make_log` leaves."""
    names = set(folder.names()) - {_MARK}
    return not names <= set(_FOLDERS) or any(folder.folder(name).names() for name in names)


def is_log(folder: Folder) -> bool:
    """Tell whether a folder is a log.

    Raises:
        LogError: when a newer version of headrace has made it.
        LogCorruptedError: when the file that says so is damaged.
    """
    try:
        unframed(dict, folder.read(_MARK), folder.locate(_MARK))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


_COMMITS_AT_ONCE: Final = 64
"""The commits that are read before a newer snapshot is looked for."""

_FIRST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 0.05
"""Seconds between two looks for new commits: the longer nothing has come, the more."""

_THOROUGH_SECONDS: Final = 5
"""The interval at which a waiting reader looks for a snapshot too."""


class Journal:
    """The commits of a log, and the state that they add up to. All threads of a process can use one.

    Args:
        folder: of the log.
        clock: returns the time in milliseconds.
        when_due: is called when this process has made the commit with which a snapshot and maintenance are due.

    Attributes:
        chunks: the files of records.
        heartbeats: those of members of groups.
        segments: reads records.
        claim: says that a process does maintenance.

    Raises:
        LogError: when there is no log.
        OSError: when the folder cannot be read.
    """

    def __init__(self, folder: Folder, clock: Callable[[], int], when_due: Callable[[], None]) -> None:
        self.folder = folder
        self.clock = clock
        if not is_log(folder):
            raise LogError(
                f"{folder} is no log: `headrace log create`, Log.open(…, create=True), or the option "
                "'auto-create.partitions' of a table, makes one"
            )
        self._commits, self._snapshots, self.chunks, self.heartbeats = map(folder.folder, _FOLDERS)
        self.claim = MaintenanceClaim(self.heartbeats)
        self.segments = SegmentReader({SUFFIX: self._commits, CHUNKS: self.chunks})
        self._begin()
        _JOURNALS.add(self)
        self._when_due = when_due

    def __str__(self) -> str:
        return str(self.folder)

    def refresh(self, *, thoroughly: bool = True) -> int:
        """Read the commits that have been made since the last call.

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
            newest = 0
            if self._state is None:
                newest = max((commit_number(name) or 0 for name in self._commits.names()), default=0)
            state = self._read_on(self._state or self._load(), thoroughly=thoroughly)
            if state.version < newest:
                raise LogCorruptedError(
                    f"{self._where(state.version + 1)} is missing, and there are later commits, up to {newest}; "
                    "put it back from a copy"
                )
            if state.version != before:
                self._changed.notify_all()
            return state.version

    def state(self) -> LogState:
        """The state of the log, as of the last look at it. No other code may change it; read it under :attr:`lock`."""
        with self._lock:
            if self._state is None:
                self.refresh()
            assert self._state is not None
            return self._state

    @property
    def lock(self) -> threading.RLock:
        """The lock of what this process knows of the log; hold it to see or to change that."""
        return self._lock

    def look(self, view: Callable[[LogState], T]) -> T:
        """Refresh the state and give what a view takes from it; errors as with :meth:`refresh`."""
        with self._lock:
            self.refresh()
            return view(self.state())

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
        self,
        author: Author | Callable[[LogState], Author],
        describe: Callable[[Commit, LogState], Commit | tuple[Commit, bytes]] = lambda commit, _: commit,
    ) -> ProducerState:
        """Commit a change of the log, atomically.

        A caller that does not know whether a commit was done, after an ``OSError`` say, repeats it with the same
        author: it is not done twice.

        Args:
            author: the producer; a committed sequence is not committed again. A function gives one that follows
                from what the log holds, and is committed in any case.
            describe: makes of an empty commit, and what the log holds, the one that is to be; and gives the records
                that lie in it, if any. May be called again, as others commit. What it raises ends the attempt.

        Returns:
            What is known of the author then.

        Raises:
            ProducerFencedError: when another producer has taken over the author's id.
            OSError: when that is not known, or not done.
        """
        with self._lock:
            while True:
                self.refresh()
                state = self.state()
                done = _done(state, author) if isinstance(author, Author) else None
                if done is not None:
                    return done
                its_author = author if isinstance(author, Author) else author(state)
                described = describe(Commit(its_author, self.clock()), state)
                commit, inline = described if isinstance(described, tuple) else (described, b"")
                number, commit = state.version + 1, replace(commit, follows=state.checksum)
                content = commit.to_bytes(inline)
                if not self.create_commit(number, content):
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
        """Commit a change that no producer makes, such as one of topics or groups; see :meth:`commit`."""
        with self._lock:  # a sequence that is overtaken by the next one would count as done
            self._changes += 1
            self.commit(Author(self._producer, 0, self._changes), describe)

    # --- files -------------------------------------------------------------------------------------------------------

    def create_commit(self, number: int, content: bytes) -> bool:
        """Create a commit record unless there is one of that number; see the rule at the beginning."""
        is_mine = self._commits.create(commit_name(number), content)
        if is_mine:
            self.segments.remember(commit_name(number), content)
        return is_mine

    def read_commits(self, number: int, count: int) -> list[tuple[Commit, int]]:
        """Read consecutive commits, with the checksums of their files; see the rule at the beginning.

        Args:
            number: the first one.
            count: how many at most; the list ends at the first that is not there.
        """
        found = list[tuple[Commit, int]]()
        for each in range(number, number + count):
            try:
                content = self._commits.read(commit_name(each))
            except FileNotFoundError:
                break
            found.append((Commit.from_bytes(content, self._where(each)), checksum_of(content)))
            self.segments.remember(commit_name(each), content)
        return found

    def _where(self, number: int) -> str:
        """The path or URI of a commit record."""
        return self._commits.locate(commit_name(number))

    def remove_commits(self, needed: set[str]) -> list[str]:
        """Remove commit records that are not needed: a snapshot covers them, and no segment lies in them.

        Args:
            needed: the files that segments lie in.

        Returns:
            Their names.
        """
        versions = self.snapshot_versions()
        if not versions:
            return []
        covered = [
            name
            for name in self._commits.names()
            if (number := commit_number(name)) is not None and number <= versions[0] and name not in needed
        ]
        self._commits.remove_unfinished(lambda name: (commit_number(name) or 0) <= versions[0])
        return self._commits.remove_all(covered)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot_versions(self) -> list[int]:
        """The versions that there are snapshots of, the newest last."""
        found = map(_SNAPSHOT.fullmatch, self._snapshots.names())
        return [int(each[1]) for each in found if each]

    def _read_snapshot(self) -> LogState:
        """Read the newest snapshot; an empty state where there is none.

        Raises:
            LogCorruptedError: when the snapshot is damaged.
        """
        self.segments.forget()
        for _ in range(_TRIES):
            versions = self.snapshot_versions()
            if not versions:
                return LogState(checksum=checksum_of(self.folder.read(_MARK)))
            name = f"{versions[-1]:020}.snapshot"
            try:
                content = self._snapshots.read(name)
            except FileNotFoundError:  # there is a newer one
                continue
            state = _state_in(content, self._snapshots.locate(name))
            if state.version != versions[-1]:
                raise LogCorruptedError(
                    f"{self._snapshots.locate(name)} is the snapshot of version {state.version}, under another's name; "
                    "put it back from a copy"
                )
            return state
        raise LogError(f"{self.folder}: each of {_TRIES} snapshots was removed before it could be read")

    def write_snapshot(self) -> None:
        """Write down what the log holds, and remove all older snapshots but one; a failure is logged."""
        try:
            with self._lock:
                version, content = self.state().version, framed(self.state())
            self._snapshots.create(f"{version:020}.snapshot", zlib.compress(content, 1))
            older = [each for each in self.snapshot_versions() if each <= version][:-_KEPT_SNAPSHOTS]
            self._snapshots.remove_all([f"{each:020}.snapshot" for each in older])
            self._snapshots.remove_unfinished(lambda name: name <= f"{version:020}")
        except OSError as error:
            logger.warning("%s: no snapshot could be written: %s", self, error)

    def chunk_names(self) -> list[str]:
        """The names of all files of records, also of those that nothing refers to."""
        return [name for name in self.chunks.names() if _NAME.fullmatch(name)]

    # --- inside ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Forget all state and locks; a fork does so as well, as threads that hold locks are not in it."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._state: LogState | None = None
        self._producer = f"{ANONYMOUS}{uuid.uuid4().hex}"
        self._changes = 0

    def _read_on(self, state: LogState, *, thoroughly: bool) -> LogState:
        while True:
            commits = self.read_commits(state.version + 1, _COMMITS_AT_ONCE)
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
        self._state = self._read_snapshot()
        return self._state

    def _check_not_put_back(self, version: int) -> None:
        """Check that the newest commit that this process has seen is still there.

        Raises:
            LogCorruptedError: when it is not; the next look begins with what there is.
        """
        if version and self._commits.size(commit_name(version)) is None and not self._is_covered(version):
            self._state = None
            raise LogCorruptedError(
                f"{self._where(version)} is gone, which this process has seen: an older copy of the log has "
                "taken its place, and what was committed since that copy is lost"
            )

    def _apply(self, state: LogState, commit: Commit, checksum: int) -> None:
        try:
            state.apply(commit, checksum, self._where(state.version + 1))
        except BaseException:
            self._state = None  # half of it may be done
            raise

    def _is_covered(self, number: int) -> bool:
        """Tell whether there is a snapshot that is as new as a commit."""
        versions = self.snapshot_versions()
        return bool(versions) and versions[-1] >= number


_JOURNALS: Final = weakref.WeakSet[Journal]()


def _begin_all() -> None:
    for journal in list(_JOURNALS):
        journal._begin()


os.register_at_fork(after_in_child=_begin_all)


def _done(state: LogState, author: Author) -> ProducerState | None:
    """The state of an author whose commit is in the log already; None if it is not.

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


def _state_in(content: bytes, where: str) -> LogState:
    try:
        plain = zlib.decompress(content)
    except zlib.error as error:
        raise LogCorruptedError(f"{where} is damaged: {error}") from error
    return unframed(LogState, plain, where)
