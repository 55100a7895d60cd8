"""What a channel tells its receivers about an epoch before any record is looked at."""

from __future__ import annotations

import enum
import pickle
from dataclasses import dataclass


class ChannelStatus(enum.Enum):
    """Whether a channel counts in the minimum of watermarks."""

    ACTIVE = "active"
    IDLE = "idle"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class ChannelSummary:
    """One piece of one channel, as its sender saw it.

    Attributes:
        edge: the edge of the plan.
        channel: the split or the sending subtask.
        phase: which piece of the epoch's share, from 0.
        start: the watermark before the epoch's first record (the same in every phase).
        final: the watermark after the piece, as far as the piece alone tells.
        status: the status at the end of the epoch.
        envelopes: how many data envelopes the receiver gets from this piece.
    """

    edge: int
    channel: int
    phase: int
    start: int
    final: int
    status: ChannelStatus
    envelopes: int

    def to_bytes(self) -> bytes:
        """For the payload of an envelope."""
        return pickle.dumps(
            (self.edge, self.channel, self.phase, self.start, self.final, self.status.value, self.envelopes), protocol=5
        )

    @classmethod
    def from_bytes(cls, payload: bytes) -> ChannelSummary:
        """What :meth:`to_bytes` wrote."""
        edge, channel, phase, start, final, status, envelopes = pickle.loads(payload)
        return cls(edge, channel, phase, start, final, ChannelStatus(status), envelopes)
