"""What stands before an operator and holds its event time to the slowest of its inputs (Flink calls it a valve)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.common.constants import MIN_WATERMARK
from headrace.exchange.merging import merged
from headrace.runtime.task.inputs import Inputs
from headrace.runtime.task.rounds import Meeting, ordinals_of, slowest_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headrace.common.batch import Batch
    from headrace.operators.base import Operator
    from headrace.plan.job_plan import PlannedEdge
    from headrace.runtime.task.rounds import Trace


class Gate:
    """Stands before an operator.

    An input is a chained edge, or everything that came through the exchange. Most operators have one input; then a gate
    only counts.

    Args:
        operator: the operator.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.watermark = MIN_WATERMARK
        self.records = 0
        self.meetings: dict[int, GateMeeting] = {}
        self._inputs = Inputs()
        self._only: int | None = None

    def begin(self, inputs: Mapping[int, int], watermark: int) -> None:
        """Start of an epoch, or of a piece of a split.

        Args:
            inputs: the watermark of each input that is not idle.
            watermark: the event time that the operator has reached.
        """
        self._inputs.begin(inputs)
        self._only = None if len(inputs) > 1 else next(iter(inputs), None)
        self.watermark = watermark

    def accept(self, source: int, edge: PlannedEdge, batch: Batch) -> None:
        """Records of one input."""
        if source in self.meetings:
            self.meetings[source].wait(Arrival(source, edge.input_index, batch))
            return
        self.records += len(batch)
        if source != self._only:
            limit = self._limit((source,))
            self._inputs.advance(source, int(batch.watermarks[-1]))
            batch = self._held_back(batch, limit)
        self._pass(edge.input_index, batch)

    def accept_together(self, arrivals: Sequence[Arrival], traces: Mapping[int, Iterable[Trace]]) -> None:
        """Records that have come by several branches, in the order in which they set out.

        Args:
            arrivals: the records.
            traces: by input, what has made the watermarks of its records; an idle input has no say.
        """
        counting = {trace for source in traces if source in self._inputs for trace in traces[source]}
        waiting: dict[int, list[Batch]] = {}
        for arrival in arrivals:
            self.records += len(arrival.batch)
            met = arrival.batch.with_watermarks(slowest_at(counting, arrival.batch))
            waiting.setdefault(arrival.input_index, []).append(met)
        limit = self._limit(traces.keys())
        for arrival in arrivals:
            self._inputs.advance(arrival.source, int(arrival.batch.watermarks[-1]))
        for input_index, batch in merged(waiting, ordinals_of):
            self._pass(input_index, self._held_back(batch, limit))

    def advance(self, source: int, watermark: int) -> None:
        """One input has reached ``watermark``; an idle one has no say."""
        self._inputs.advance(source, watermark)
        self.watermark = max(self._inputs.slowest(), self.watermark)
        self.operator.advance_watermark(self.watermark)

    def _pass(self, input_index: int, batch: Batch) -> None:
        self.watermark = int(batch.watermarks[-1])
        self.operator.process(input_index, batch)

    def _limit(self, sources: Collection[int]) -> int | None:
        """What all inputs but these have reached; these come on their own, so it does not move meanwhile."""
        if not any(source in self._inputs for source in sources):
            # What an idle input still has to say moves nothing.
            return self.watermark
        return self._inputs.slowest_but(sources)

    def _held_back(self, batch: Batch, limit: int | None) -> Batch:
        """The same records under no more than ``limit``, and no less than what was reached already."""
        watermarks = batch.watermarks if limit is None else np.minimum(batch.watermarks, limit)
        return batch.with_watermarks(np.maximum(watermarks, self.watermark))


@dataclass(frozen=True, slots=True)
class Arrival:
    """Records that have come to an operator by one of its inputs."""

    source: int
    input_index: int
    batch: Batch


@dataclass(slots=True)
class GateMeeting(Meeting):
    """Branches that meet before an operator of the same task.

    Attributes:
        gate: the operator's gate.
        traces: by input, what makes the watermarks of its records.
    """

    gate: Gate
    traces: Mapping[int, Sequence[Trace]]
    _waiting: list[Arrival] = field(default_factory=list)

    def open(self) -> None:
        self._waiting.clear()
        self.gate.meetings.update(dict.fromkeys(self.traces, self))

    def wait(self, arrival: Arrival) -> None:
        """Records have come before the round is over."""
        self._waiting.append(arrival)

    def close(self) -> None:
        for source in self.traces:
            del self.gate.meetings[source]
        if self._waiting:
            self.gate.accept_together(self._waiting, self.traces)
