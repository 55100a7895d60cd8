"""The receiving end: envelopes in watermark order become batches in exact order, each record with its watermark.

Envelopes arrive sorted by the watermark of their first record, and wait until there is enough to be worth a step: what
an operator does costs much the same for one record as for a thousand. Then all that nothing can come before any more is
read, merged record by record, vectorised, and delivered. Two channels overlap inside, so the rest waits until
the next step. Memory holds one envelope a channel, and those of one step.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InfrastructureError
from headrace.exchange.envelope import ChannelStatus, ChannelSummary, Envelope, PayloadDecoder
from headrace.operators.base import concat_keyed
from headrace.plan.job_plan import PlannedEdge

Order = Callable[[Batch], npt.NDArray[np.int64]]
Keys = Sequence[npt.NDArray[np.int64]]
Pending = tuple[tuple[int, int], Batch]
"""Records that wait for their turn, with the edge and channel that they came by."""


def merged(inputs: Mapping[int, Sequence[Batch]], order: Order) -> Iterator[tuple[int, Batch]]:
    """Merge the records of several inputs, cut wherever those of another input come between.

    Args:
        inputs: the batches of each input; records that are equal come input by input, batch by batch.
        order: gives what decides over the order of the records of a batch.

    Yields:
        Input and records.
    """
    runs = {number: concat_keyed(batches) for number, batches in inputs.items()}
    yield from interleaved(runs, {number: (order(run),) for number, run in runs.items()})


def interleaved(runs: Mapping[int, Batch], keys: Mapping[int, Keys]) -> Iterator[tuple[int, Batch]]:
    """Merge the records of several inputs, cut wherever those of another input come between.

    Args:
        runs: the records of each input; those that are equal come input by input, and within one as they are.
        keys: for each input, what decides over the order of its records, the last one first.

    Yields:
        Input and records.
    """
    if len(runs) <= 1:
        for number, run in runs.items():
            yield number, run if _is_sorted(keys[number]) else run.take(np.lexsort(keys[number]))
        return
    starts = np.cumsum([0, *map(len, runs.values())])
    order = np.lexsort([np.concatenate(column) for column in zip(*keys.values(), strict=True)])
    places = np.searchsorted(starts, order, side="right") - 1
    cuts = np.flatnonzero(places[1:] != places[:-1]) + 1
    rows = [order[places == place] - start for place, start in enumerate(starts[:-1].tolist())]
    taken = [run.take(wanted) for run, wanted in zip(runs.values(), rows, strict=True)]
    numbers, done = list(runs), [0] * len(runs)
    for start, stop in zip(np.append(0, cuts).tolist(), np.append(cuts, len(order)).tolist(), strict=True):
        place = int(places[start])
        first = done[place]
        done[place] = first + stop - start
        yield numbers[place], taken[place].slice(first, done[place])


def _is_sorted(keys: Keys) -> bool:
    """Return whether nothing has to move; that is so for most of what is large."""
    tied: npt.NDArray[np.bool_] | np.bool_ = np.bool_(True)
    for key in reversed(keys):
        if key.strides == (0,):  # one value that is repeated
            continue
        before, after = key[:-1], key[1:]
        if (tied & (before > after)).any():
            return False
        tied = tied & (before == after)
    return True


STEP_BYTES: Final = 256 * 1024
"""Envelopes wait until there are so many bytes; what comes in large envelopes is handled one by one."""


class ExchangeError(InfrastructureError):
    """Envelopes were lost or doubled on their way; the epoch has to be run again."""


class ExchangeReceiver:
    """Receives all exchanged edges of one operator in one task.

    Args:
        edges: the edges, all of them into the same operator.
        watermark: the operator's event time at the end of the last epoch.
        deliver: takes ``(edge, batch)``; the watermarks of the batches never fall.
        is_stalled: whether event time stands still, because a source has no split for now; else no channels mean that
            all have finished.
        step_bytes: how many bytes of envelopes make a step.
    """

    def __init__(
        self,
        edges: Iterable[PlannedEdge],
        watermark: int,
        deliver: Callable[[PlannedEdge, Batch], None],
        *,
        is_stalled: bool = False,
        step_bytes: int = STEP_BYTES,
    ) -> None:
        self._edges: dict[int, PlannedEdge] = {}
        self._decoders: dict[int, PayloadDecoder] = {}
        for edge in edges:
            self._edges[edge.id], self._decoders[edge.id] = edge, PayloadDecoder(edge.record_type, edge.key)
        self._watermark = watermark
        self._deliver = deliver
        self._is_stalled = is_stalled
        self._summaries: list[ChannelSummary] = []
        self._step_bytes = step_bytes
        self._arrived: list[Envelope] = []
        self._arrived_bytes = 0
        self._pending: list[Pending] = []
        self._piece = 0
        self._received: Counter[tuple[int, int, int]] = Counter()

    def summary(self, summary: ChannelSummary) -> None:
        """Return how a channel fares in this epoch; all of these come before the first record."""
        self._summaries.append(summary)

    def data(self, envelope: Envelope) -> None:
        """The next envelope, in sorted order."""
        if self._arrived_bytes >= self._step_bytes or (self._pending and envelope.piece != self._piece):
            self._release_before(envelope)
        self._arrived.append(envelope)
        self._arrived_bytes += len(envelope.payload)
        self._piece = envelope.piece
        self._received[envelope.edge, envelope.channel, envelope.piece] += 1

    def end(self) -> int:
        """Everything has arrived: deliver the rest.

        Returns:
            The operator's watermark at the end of the epoch.

        Raises:
            ExchangeError: when an envelope is missing.
        """
        self._release_all()
        sent: Counter[tuple[int, int, int]] = Counter()
        for summary in self._summaries:
            sent[summary[:3]] += summary.envelopes
        if sent != self._received:
            where = next(each for each in sorted({*sent, *self._received}) if sent[each] != self._received[each])
            raise ExchangeError(
                f"edge {where[0]}, channel {where[1]}, piece {where[2]}: {sent[where]} envelopes were sent, "
                f"{self._received[where]} arrived"
            )
        return self._progress.final

    @property
    def status(self) -> ChannelStatus:
        """The status of all inputs together; known once all summaries have come."""
        return self._progress.status

    @cached_property
    def _progress(self) -> "_Progress":
        return _Progress(self._summaries, self._watermark, is_stalled=self._is_stalled)

    def _release_before(self, following: Envelope) -> None:
        """Deliver what comes before the first record of an envelope."""
        if following.piece != self._piece:
            self._release_all()
            return
        arrived = self._taken()
        # While anything is pending, all that has arrived is of its piece.
        self._deliver_whole([envelope for envelope in arrived if envelope.piece != self._piece])
        self._decode(envelope for envelope in arrived if envelope.piece == self._piece)
        channel = (following.edge, following.channel)
        ready: list[Pending] = []
        waiting: list[Pending] = []
        for where, batch in self._pending:
            stop = _end_of_what_precedes((where, batch), channel, following.watermark)
            if stop:
                ready.append((where, batch if stop == len(batch) else batch.slice(0, stop)))
            if stop < len(batch):
                waiting.append((where, batch.slice(stop, len(batch))))
        self._pending = waiting
        self._deliver_pending(ready)

    def _release_all(self) -> None:
        arrived = self._taken()
        if not self._pending:
            self._deliver_whole(arrived)
            return
        self._decode(arrived)
        pending, self._pending = self._pending, []
        self._deliver_pending(pending)

    def _taken(self) -> list[Envelope]:
        arrived, self._arrived, self._arrived_bytes = self._arrived, [], 0
        return arrived

    def _decode(self, arrived: Iterable[Envelope]) -> None:
        """Read envelopes of one piece."""
        for channel, envelopes in groupby(sorted(arrived, key=_channel_of), _channel_of):
            payloads = [envelope.payload for envelope in envelopes]
            self._pending.append((channel, self._decoders[channel[0]].decode(payloads)[0]))

    def _deliver_pending(self, ready: Iterable[Pending]) -> None:
        """Deliver records of one piece."""
        # Records that meet the same watermark come by channel, and within one in sending order.
        batches: dict[int, list[Batch]] = {}
        for (edge, _), batch in sorted(ready, key=itemgetter(0)):
            batches.setdefault(edge, []).append(batch)
        runs = {edge: concat_keyed(of_edge) for edge, of_edge in batches.items()}
        self._merge(runs, {edge: np.broadcast_to(np.int64(self._piece), len(run)) for edge, run in runs.items()})

    def _deliver_whole(self, arrived: list[Envelope]) -> None:
        """Deliver all records of envelopes of any pieces; each edge is read as one."""
        runs: dict[int, Batch] = {}
        pieces: dict[int, npt.NDArray[np.int64]] = {}
        for edge, of_edge in groupby(sorted(arrived, key=_channel_of), attrgetter("edge")):
            envelopes = list(of_edge)
            runs[edge], lengths = self._decoders[edge].decode(list(map(attrgetter("payload"), envelopes)))
            pieces[edge] = np.repeat(list(map(attrgetter("piece"), envelopes)), lengths)
        self._merge(runs, pieces)

    def _merge(self, runs: Mapping[int, Batch], pieces: Mapping[int, npt.NDArray[np.int64]]) -> None:
        """Deliver records by piece and watermark; where both are equal, edge by edge and within one as they are."""
        keys = {edge: (run.watermarks, pieces[edge]) for edge, run in runs.items()}
        reached = self._progress.effective
        met = {edge: run.with_watermarks(reached(run.watermarks, pieces[edge])) for edge, run in runs.items()}
        for edge, batch in interleaved(met, keys):
            self._deliver(self._edges[edge], batch)


_channel_of = attrgetter("edge", "channel")


def _end_of_what_precedes(pending: Pending, channel: tuple[int, int], watermark: int) -> int:
    """Return how many of the pending records come before a record of ``channel`` that meets ``watermark``."""
    where, batch = pending
    if where == channel:
        return len(batch)
    side: Literal["left", "right"] = "right" if where < channel else "left"
    return int(np.searchsorted(batch.watermarks, watermark, side=side))


class _Progress:
    """The progress of the epoch as a whole, from the summaries of all channels."""

    def __init__(self, summaries: list[ChannelSummary], watermark: int, *, is_stalled: bool) -> None:
        reached: dict[tuple[int, int], list[int]] = {}  # before piece 0, between each two pieces, after the last one
        statuses: dict[tuple[int, int], ChannelStatus] = {}
        for edge, channel, _, start, final, status, _ in sorted(summaries, key=itemgetter(slice(3))):
            watermarks = reached.setdefault((edge, channel), [start])
            watermarks.append(max(watermarks[-1], final))
            statuses[edge, channel] = status
        found = set(statuses.values())
        if is_stalled or ChannelStatus.ACTIVE in found:
            self.status = ChannelStatus.ACTIVE
        else:
            self.status = ChannelStatus.IDLE if ChannelStatus.IDLE in found else ChannelStatus.FINISHED
        by_status: dict[ChannelStatus, list[int]] = {}
        live: list[list[int]] = []
        for at, watermarks in reached.items():
            by_status.setdefault(statuses[at], []).append(watermarks[-1])
            if statuses[at] is not ChannelStatus.IDLE:
                live.append(watermarks)
        self.final = watermark if is_stalled else max(watermark, self._reached_by_all(by_status, watermark))
        bounds: list[int] = []  # what every channel that counts has reached before piece 0, and between each two pieces
        for piece in range(max(map(len, reached.values()), default=1) - 1):
            slowest = min((watermarks[min(piece, len(watermarks) - 1)] for watermarks in live), default=self.final)
            bounds.append(max(watermark, min(slowest, self.final)))
        self._bounds = np.array([*bounds, self.final], dtype=np.int64)

    def _reached_by_all(self, by_status: Mapping[ChannelStatus, Sequence[int]], watermark: int) -> int:
        if self.status is ChannelStatus.FINISHED:
            return MAX_WATERMARK
        if active := by_status.get(ChannelStatus.ACTIVE):
            return min(active)
        # All idle: nothing holds anything back any more, so the furthest one counts (Flink's valve does the same).
        return max(by_status.get(ChannelStatus.IDLE, ()), default=watermark)

    def effective(self, watermarks: npt.NDArray[np.int64], pieces: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The operator's watermark at each record, from what the record's own piece knew of its channel.

        Every channel has reached the lower bound before the piece. All pieces ``n`` come before all pieces ``n + 1``,
        so until these are there, no channel that has some counts for more than its piece ``n`` has reached.
        """
        if pieces.strides == (0,):  # one piece, as nearly always
            pieces = pieces[:1]
        if (last := int(pieces.max())) + 1 >= len(self._bounds):
            raise ExchangeError(f"records of piece {last} arrived, but no channel has announced it")
        effective: npt.NDArray[np.int64] = np.clip(watermarks, self._bounds[pieces], self._bounds[pieces + 1])
        return effective
