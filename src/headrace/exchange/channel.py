"""What a channel tells its receivers about an epoch before any record is looked at."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from headrace.common.constants import MIN_WATERMARK
from headrace.exchange.envelope import Envelope, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.plan.job_plan import PlannedEdge


class ChannelStatus(enum.Enum):
    """Whether a channel counts in the minimum of watermarks."""

    ACTIVE = 0
    IDLE = 1
    FINISHED = 2


class ChannelSummary(NamedTuple):
    """One piece of one channel, as its sender saw it.

    Attributes:
        edge: the edge of the plan.
        channel: the split or the sending subtask.
        piece: its number, from 0.
        start: the watermark before the epoch's first record (the same in every piece).
        final: the watermark after the piece, as far as the piece alone tells.
        status: the status at the end of the epoch.
        envelopes: how many data envelopes the receiver gets from this piece.
    """

    edge: int
    channel: int
    piece: int
    start: int
    final: int
    status: ChannelStatus
    envelopes: int


_FIELDS: Final = len(ChannelSummary._fields)
"""Inside an envelope a summary is so many 64-bit integers, in the order of its fields."""

_STATUSES: Final = tuple(ChannelStatus)


class SummaryBook:
    """Collects the summaries of everything that one task sends: each receiving task gets its own in one envelope.

    Args:
        subtask: the number of the sending task.
    """

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask
        self._pages: dict[tuple[int, int], list[npt.NDArray[np.int64]]] = {}

    def add(
        self,
        edge: PlannedEdge,
        channel: int,
        piece: int,
        *,
        start: int,
        final: int,
        status: ChannelStatus,
        envelopes: Sequence[int],
    ) -> None:
        """A piece of a channel is over; ``envelopes`` says for each receiver how many it was sent."""
        page = np.empty((len(envelopes), _FIELDS), np.int64)
        page[:, :-1] = (edge.id, channel, piece, start, final, status.value)
        page[:, -1] = envelopes
        self._pages.setdefault((edge.target_stage, len(envelopes)), []).append(page)

    def seal(self) -> Iterator[Envelope]:
        """Everything so far, which comes before any record; the book is empty then."""
        pages, self._pages = self._pages, {}
        for (stage, receivers), summaries in pages.items():
            for target, own in enumerate(np.concatenate(summaries, axis=1)):
                yield Envelope(
                    stage, target, -1, MIN_WATERMARK, 0, self._subtask, receivers, Kind.SUMMARY, own.tobytes()
                )


def summaries_of(payload: bytes | pa.Buffer) -> Iterator[ChannelSummary]:
    """What :meth:`SummaryBook.seal` has put into an envelope."""
    summaries = np.frombuffer(payload, np.int64).reshape(-1, _FIELDS)
    for edge, channel, piece, start, final, status, envelopes in summaries.tolist():
        yield ChannelSummary(edge, channel, piece, start, final, _STATUSES[status], envelopes)
