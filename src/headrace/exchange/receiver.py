"""The receiving end: envelopes in watermark order become batches in exact order, each record with its watermark.

Envelopes arrive sorted by the watermark of their first record. Two channels overlap inside, so what has arrived is held
back until the next envelope shows that nothing before it can follow, and is merged record by record, vectorised. Memory
holds one envelope a channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InfrastructureError
from headrace.exchange.channel import ChannelStatus, ChannelSummary
from headrace.exchange.merging import merged
from headrace.exchange.payload import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.exchange.envelope import Envelope
    from headrace.plan.job_plan import PlannedEdge


class ExchangeError(InfrastructureError):
    """Envelopes were lost or doubled on their way; the epoch has to be run again."""


@dataclass(slots=True)
class _Held:
    """Records of one channel that wait for their turn."""

    channel: tuple[int, int]
    batch: Batch


class ExchangeReceiver:
    """Receives all exchanged edges of one operator in one task.

    Args:
        edges: the edges, all of them into the same operator.
        watermark: the operator's event time at the end of the last epoch.
        deliver: takes ``(edge, batch)``; the watermarks of the batches never fall.
        is_stalled: whether event time stands still, because a source has no split for now; else no channels mean that
            all have finished.
    """

    def __init__(
        self,
        edges: Iterable[PlannedEdge],
        watermark: int,
        deliver: Callable[[PlannedEdge, Batch], None],
        *,
        is_stalled: bool = False,
    ) -> None:
        self._edges = {edge.id: edge for edge in edges}
        self._watermark = watermark
        self._deliver = deliver
        self._is_stalled = is_stalled
        self._summaries: list[ChannelSummary] = []
        self._progress: _Progress | None = None
        self._held: list[_Held] = []
        self._phase = 0
        self._received: dict[tuple[int, int, int], int] = {}

    def summary(self, payload: bytes) -> None:
        """How a channel fares in this epoch; all of these come before the first record."""
        self._summaries.append(ChannelSummary.from_bytes(payload))

    def data(self, envelope: Envelope) -> None:
        """The next envelope, in sorted order."""
        channel = (envelope.edge, envelope.channel)
        self._release(envelope.phase, envelope.watermark, channel)
        edge = self._edges[envelope.edge]
        self._held.append(_Held(channel, decode(envelope.payload, edge.record_type, edge.key)))
        where = (*channel, envelope.phase)
        self._received[where] = self._received.get(where, 0) + 1

    def end(self) -> tuple[int, ChannelStatus]:
        """Everything has arrived: deliver the rest.

        Returns:
            The operator's watermark at the end of the epoch and the status of its inputs.

        Raises:
            ExchangeError: when an envelope is missing.
        """
        self._release_all()
        for (edge, channel, phase), (sent, arrived) in self._counts():
            if sent != arrived:
                raise ExchangeError(
                    f"edge {edge}, channel {channel}, piece {phase}: {sent} envelopes were sent, {arrived} arrived"
                )
        return self._known().final, self.status

    @property
    def status(self) -> ChannelStatus:
        """The status of all inputs together; known once all summaries have come."""
        return self._known().status

    def _counts(self) -> Iterator[tuple[tuple[int, int, int], tuple[int, int]]]:
        """Edge, channel and piece with the envelopes that were sent and that arrived."""
        counts = {where: [0, arrived] for where, arrived in self._received.items()}
        for summary in self._summaries:
            where = (summary.edge, summary.channel, summary.phase)
            counts.setdefault(where, [0, 0])[0] += summary.envelopes
        yield from ((where, (sent, arrived)) for where, (sent, arrived) in counts.items())

    def _known(self) -> _Progress:
        if self._progress is None:
            self._progress = _Progress(self._summaries, self._watermark, is_stalled=self._is_stalled)
        return self._progress

    def _release(self, phase: int, watermark: int, channel: tuple[int, int]) -> None:
        """Deliver what comes before a record of ``channel`` that meets ``watermark``."""
        if phase != self._phase:
            self._release_all()
            self._phase = phase
        ready: list[_Held] = []
        waiting: list[_Held] = []
        for held in self._held:
            side = "right" if held.channel <= channel else "left"
            stop = (
                len(held.batch)
                if held.channel == channel
                else int(
                    np.searchsorted(held.batch.watermarks, watermark, side=side)  # type: ignore[call-overload]
                )
            )
            if stop:
                ready.append(held if stop == len(held.batch) else _Held(held.channel, held.batch.slice(0, stop)))
            if stop < len(held.batch):
                waiting.append(_Held(held.channel, held.batch.slice(stop, len(held.batch))))
        self._held = waiting
        self._merge(ready)

    def _release_all(self) -> None:
        held, self._held = self._held, []
        self._merge(held)

    def _merge(self, ready: list[_Held]) -> None:
        # Records that meet the same watermark come by channel, and within one in sending order.
        by_edge: dict[int, list[Batch]] = {}
        for held in sorted(ready, key=lambda held: held.channel):
            by_edge.setdefault(held.channel[0], []).append(held.batch)
        for edge_id, batch in merged(by_edge, lambda batch: batch.watermarks):
            self._hand_over(edge_id, batch)

    def _hand_over(self, edge_id: int, batch: Batch) -> None:
        watermarks = self._known().effective(batch.watermarks, self._phase)
        self._deliver(self._edges[edge_id], batch.with_watermarks(watermarks))


class _Progress:
    """What the summaries of all channels say about the epoch as a whole."""

    def __init__(self, summaries: list[ChannelSummary], watermark: int, *, is_stalled: bool) -> None:
        channels: dict[tuple[int, int], list[ChannelSummary]] = {}
        for summary in sorted(summaries, key=lambda summary: summary.phase):
            channels.setdefault((summary.edge, summary.channel), []).append(summary)
        self._pieces = list(channels.values())
        self.status = ChannelStatus.ACTIVE if is_stalled else self._combined_status()
        self.final = watermark if is_stalled else max(watermark, self._combined_final(watermark))
        # Before piece 0, between each two pieces, and after the last one.
        between = [max(watermark, min(self._base(phase), self.final)) for phase in range(self._phases())]
        self._bounds = [*between, self.final]

    def effective(self, watermarks: npt.NDArray[np.int64], phase: int) -> npt.NDArray[np.int64]:
        """The operator's watermark at each record, from what the record's own piece knew of its channel.

        Every channel has reached the lower bound before the piece. All pieces ``n`` come before all pieces ``n + 1``,
        so until these are there, no channel that has some counts for more than its piece ``n`` has reached.
        """
        if phase + 1 >= len(self._bounds):
            raise ExchangeError(f"records of piece {phase} arrived, but no channel has announced it")
        effective: npt.NDArray[np.int64] = np.clip(watermarks, self._bounds[phase], self._bounds[phase + 1])
        return effective

    def _phases(self) -> int:
        return max((len(pieces) for pieces in self._pieces), default=0)

    def _live(self) -> list[list[ChannelSummary]]:
        return [pieces for pieces in self._pieces if pieces[-1].status is not ChannelStatus.IDLE]

    def _combined_status(self) -> ChannelStatus:
        states = {pieces[-1].status for pieces in self._pieces}
        if states <= {ChannelStatus.FINISHED}:
            return ChannelStatus.FINISHED
        return ChannelStatus.IDLE if ChannelStatus.ACTIVE not in states else ChannelStatus.ACTIVE

    def _combined_final(self, watermark: int) -> int:
        if self.status is ChannelStatus.FINISHED:
            return MAX_WATERMARK
        unfinished = [pieces for pieces in self._pieces if pieces[-1].status is not ChannelStatus.FINISHED]
        active = [pieces for pieces in unfinished if pieces[-1].status is ChannelStatus.ACTIVE]
        if active:
            return min(_reached(pieces, len(pieces)) for pieces in active)
        # All idle: nothing holds anything back any more, so the furthest one counts (Flink's valve does the same).
        return max((_reached(pieces, len(pieces)) for pieces in unfinished), default=watermark)

    def _base(self, phase: int) -> int:
        """What every channel has reached before piece ``phase``."""
        return min((_reached(pieces, phase) for pieces in self._live()), default=self.final)


def _reached(pieces: list[ChannelSummary], phase: int) -> int:
    """The watermark of a channel before its piece ``phase``."""
    return max([pieces[0].start, *(piece.final for piece in pieces[:phase])], default=MIN_WATERMARK)
