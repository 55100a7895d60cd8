"""Answers that were just given: however many ask for the same, it is put together once until the job has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from headrace.jobmanager.status import JobSnapshot

_FRESH_SECONDS: Final = 0.5
"""So long an answer may be given again: there are spans in it that grow while nothing happens."""

_MOST_KEPT: Final = 64


class _Given(NamedTuple):
    jobs: Sequence[JobSnapshot]
    until: float
    answer: Response


class RecentAnswers:
    """The answers of a server; from one thread.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._given: dict[tuple[str, bytes], _Given] = {}

    def get(self, key: tuple[str, bytes], jobs: Sequence[JobSnapshot]) -> Response | None:
        """The answer to a request; None where it has to be put together.

        Args:
            key: the path, and what follows it.
            jobs: what is known now of the jobs that it tells of.
        """
        given = self._given.get(key)
        if given is None or self._clock() >= given.until or len(given.jobs) != len(jobs):
            return None
        is_same = all(one is other for one, other in zip(given.jobs, jobs, strict=True))
        return given.answer if is_same else None

    def keep(self, key: tuple[str, bytes], jobs: Sequence[JobSnapshot], answer: Response) -> None:
        """Keep an answer for a moment."""
        now = self._clock()
        if len(self._given) >= _MOST_KEPT:
            fresh = {known: given for known, given in self._given.items() if now < given.until}
            self._given = fresh if len(fresh) < _MOST_KEPT else {}
        self._given[key] = _Given(jobs, now + _FRESH_SECONDS, answer)
