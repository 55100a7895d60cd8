"""Open transactions: records that lie in files and wait for a commit that only their producer can do.

The log keeps them however old they are, as whoever wrote them may come back. Of one that is given up for good somebody
has to say so.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import LogError
from headrace.log.chunk_names import ChunkName, abandoned, read_name, staged_at, tag_of
from headrace.log.commits import Author, Commit

if TYPE_CHECKING:
    from headrace.log.journal import Journal
    from headrace.log.state import LogState

ABANDONED: Final = 1 << 62
"""Epoch and sequence of a producer whose output was given up for good: nobody comes after it."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Records that wait for one commit.

    Attributes:
        producer: the id of who can do it; None where the log does not know it.
        sequence: of the commit; of a job, its epoch.
        outlasts_producer: whether a later epoch of the producer can do it as well, as a job that is restored does.
        since: when the log was last committed to before the first of them was written, in milliseconds.
        files: their names.
        size: how many bytes these have.
    """

    producer: str | None
    sequence: int
    outlasts_producer: bool
    since: int | None
    files: tuple[str, ...]
    size: int


def open_transactions(journal: Journal) -> list[OpenTransaction]:
    """The transactions that wait, by their producers; those whose records are in memory alone are not seen.

    Raises:
        LogCorruptedError: when a file is damaged.
        OSError: when the log cannot be read.
    """
    names = journal.store.chunk_names()
    with journal.lock:
        journal.refresh()
        state = journal.state()
        over = state.files() | set(abandoned(names, state))
        producers = {tag_of(producer): producer for producer in state.producers}
    waiting = defaultdict[ChunkName, list[str]](list)
    for name in names:
        found = read_name(name)
        if found is not None and found.tag is not None and name not in over:
            waiting[replace(found, version=0)].append(name)
    transactions = [
        OpenTransaction(
            producers.get(commit.tag or ""),
            commit.sequence,
            commit.epoch is None,
            _time_of(journal, staged_at(min(files))),
            tuple(files),
            sum(map(journal.store.chunk_size, files)),
        )
        for commit, files in waiting.items()
    ]
    return sorted(transactions, key=lambda each: (each.producer or "", each.sequence))


def abandon(journal: Journal, producer: str) -> int:
    """See to it that nobody commits what waits for a producer, and remove it.

    Who still tries is told: a producer is fenced; a job can write nothing to the log any more.

    Args:
        journal: of the log.
        producer: its id.

    Returns:
        How many files were removed.

    Raises:
        LogError: when nothing waits for it.
        OSError: when that cannot be done; calling again does what is left.
    """
    waiting = [each for each in open_transactions(journal) if each.producer == producer]
    if not waiting:
        raise LogError(f"{journal}: nothing waits for a commit of {producer!r}")
    is_job = any(each.outlasts_producer for each in waiting)

    def describe(state: LogState) -> Commit:
        known = state.producers[producer]
        author = Author(producer, ABANDONED, ABANDONED) if is_job else Author(producer, known.epoch + 1)
        return Commit(author, journal.clock())

    journal.commit(None, describe)
    files = [name for each in waiting for name in each.files]
    with journal.lock:
        needed = journal.state().files()
        files = [name for name in abandoned(files, journal.state()) if name not in needed]
    journal.store.remove_chunks(files)
    return len(files)


def _time_of(journal: Journal, version: int) -> int | None:
    """When a version was committed, or the last one before it of which that is known."""
    with journal.lock:
        commits = journal.store.read_commits(version, 1)
        if commits:
            return commits[0][0].time
        return next((time for at, time in reversed(journal.state().history) if at <= version), None)
