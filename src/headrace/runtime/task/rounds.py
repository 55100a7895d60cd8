"""Branches of a stream that meet again: a batch comes by one after the other, yet its records come at the same time.

A *round* is what happens between the moment a batch sets out from the root of a branching and the moment it has come by
all branches. Its records are numbered; whatever is made of a record keeps its number. Where branches meet, records wait
until the round is over. Then it is known what every branch had reached *at each record*, and that is the event time it
meets: the smallest of these, as at any operator with several inputs. So event time does not depend on how the input is
cut into batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from headrace.common.batch import Batch

    Longs = npt.NDArray[np.int64]


class Trace:
    """The watermarks that one operator has made in the current round.

    Args:
        latest: gives what it has reached now.
    """

    def __init__(self, latest: Callable[[], int]) -> None:
        self._latest = latest
        self._batches: list[Batch] = []

    def clear(self) -> None:
        """A new round."""
        self._batches.clear()

    def note(self, batch: Batch) -> None:
        """What it says at these records."""
        self._batches.append(batch)

    def at(self, ordinals: Longs) -> Longs:
        """What it had reached before each record with one of these numbers: what it said at the next one it saw."""
        seen = np.concatenate([np.empty(0, dtype=np.int64), *(ordinals_of(batch) for batch in self._batches)])
        said = np.concatenate([*(batch.watermarks for batch in self._batches), np.array([self._latest()])])
        found: Longs = said[np.searchsorted(seen, ordinals, side="left")]
        return found


class Meeting(ABC):
    """Where branches meet."""

    @abstractmethod
    def open(self) -> None:
        """A round begins: what comes has to wait."""

    @abstractmethod
    def close(self) -> None:
        """The round is over: what has waited may go on."""


@dataclass(frozen=True, slots=True)
class Round:
    """The rounds of one root, one after the other.

    Attributes:
        own: the trace of the root itself.
        traces: of all that make watermarks between the root and the meetings.
        meetings: in topological order.
    """

    own: Trace
    traces: Sequence[Trace]
    meetings: Sequence[Meeting]

    def set_out(self, batch: Batch) -> Batch:
        """The records of a batch with their numbers."""
        for trace in (self.own, *self.traces):
            trace.clear()
        for meeting in self.meetings:
            meeting.open()
        numbered = batch.with_ordinals(np.arange(len(batch)))
        self.own.note(numbered)
        return numbered

    def end(self) -> None:
        """The batch has come by all branches."""
        for meeting in self.meetings:
            meeting.close()


def ordinals_of(batch: Batch) -> Longs:
    """The numbers of the records; what is made of a batch as a whole is made of its first record."""
    return np.zeros(len(batch), dtype=np.int64) if batch.ordinals is None else batch.ordinals


def slowest_at(traces: Iterable[Trace], batch: Batch) -> Longs:
    """What all of these operators had reached at each record, which has its own watermark besides."""
    ordinals = ordinals_of(batch)
    slowest: Longs = np.minimum.reduce([batch.watermarks, *(trace.at(ordinals) for trace in traces)])
    return slowest
