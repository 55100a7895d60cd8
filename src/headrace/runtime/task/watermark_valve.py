"""The watermark valve of an operator: its event time is that of the slowest of its inputs."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.types import symbols_of
from headrace.graph.specs import CHANGES
from headrace.operators.base import Operator
from headrace.operators.user_code import record_text
from headrace.plan.job_plan import PlannedEdge

EXCHANGE: Final = -1
"""Stands for all exchanged edges of an operator together: the receiver has merged them."""


class WatermarkValve:
    """Passes records and watermarks on to an operator; as Flink's ``StatusWatermarkValve``.

    An input is a chained edge, or everything that came through the exchange. Most operators have one input; then it
    only counts records.

    Args:
        operator: the operator.
        lag: by how many milliseconds its event time is behind that of its inputs.

    Attributes:
        watermark: what all inputs have reached.
    """

    def __init__(self, operator: Operator, lag: int = 0) -> None:
        self.operator = operator
        self.watermark = MIN_WATERMARK
        self.records = 0
        self._lag = lag
        self._event_time = MIN_WATERMARK
        self._reached: dict[int, int] = {}  # by input; without those that are idle

    def begin(self, inputs: Mapping[int, int], watermark: int, event_time: int) -> None:
        """Start of an epoch, or of a piece of a split.

        Args:
            inputs: the watermark of each input that is not idle.
            watermark: what all inputs have reached.
            event_time: the event time that the operator has reached.
        """
        self._reached = dict(inputs)
        self.watermark = watermark
        self._event_time = event_time

    def accept(self, source: int, edge: PlannedEdge, batch: Batch) -> None:
        """Passes on records of one input, under no watermark that another input has not reached."""
        self.records += len(batch)
        if len(self._reached) > 1 or source not in self._reached:
            limit = self._limit((source,))
            self._reach(source, batch.last_watermark)
            batch = self._limited(batch, limit)
        self._pass(edge.input_index, batch)

    def accept_merged(
        self, sources: Collection[int], reached: Mapping[int, int], batches: Iterable[tuple[int, Batch]]
    ) -> None:
        """Records of several inputs in their common order, each with the watermark that these had reached at it.

        Args:
            sources: the inputs.
            reached: how far those have come that had records.
            batches: index of the operator's input and records, in their order.
        """
        limit = self._limit(sources)
        for source, watermark in reached.items():
            self._reach(source, watermark)
        for input_index, batch in batches:
            self.records += len(batch)
            self._pass(input_index, self._limited(batch, limit))

    def counts(self, source: int) -> bool:
        """Return whether event time waits for an input; it does not for an idle one."""
        return source in self._reached

    def advance(self, source: int, watermark: int) -> None:
        """One input has reached ``watermark``; an idle one has no say."""
        self._reach(source, watermark)
        self.watermark = max(min(self._reached.values()), self.watermark)
        self.operator.advance_watermark(self._behind(self.watermark) if self._lag else self.watermark)

    def _reach(self, source: int, watermark: int) -> None:
        if source in self._reached:
            self._reached[source] = max(watermark, self._reached[source])

    def _pass(self, input_index: int, batch: Batch) -> None:
        self.watermark = batch.last_watermark
        if self.operator.why_insertions_only and batch.kinds is not None:
            raise _refusal(batch, batch.kinds, self.operator)
        if self._lag:
            batch = batch.with_watermarks(self._all_behind(batch.watermarks))
        self.operator.process(input_index, batch)

    def _behind(self, watermark: int) -> int:
        """The operator's event time where its inputs have reached a watermark."""
        return watermark if watermark == MAX_WATERMARK else max(watermark - self._lag, self._event_time)

    def _all_behind(self, watermarks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The same of many watermarks."""
        behind = np.maximum(np.maximum(watermarks, MIN_WATERMARK + self._lag) - self._lag, self._event_time)
        return np.where(watermarks == MAX_WATERMARK, MAX_WATERMARK, behind)

    def _limit(self, sources: Collection[int]) -> int | None:
        """What all inputs but these have reached; these come on their own, so it does not move meanwhile."""
        if self._reached.keys().isdisjoint(sources):
            # What an idle input still has to say moves nothing.
            return self.watermark
        return min((reached for source, reached in self._reached.items() if source not in sources), default=None)

    def _limited(self, batch: Batch, limit: int | None) -> Batch:
        """The same records under no more than ``limit``, and no less than what was reached already."""
        watermarks = batch.watermarks if limit is None else np.minimum(batch.watermarks, limit)
        return batch.with_watermarks(np.maximum(watermarks, self.watermark))


def _refusal(batch: Batch, kinds: npt.NDArray[np.int8], operator: Operator) -> InvalidProgramError:
    """The error that names the first record that is no insertion, before an operator that takes these alone."""
    row, context, why = int(np.flatnonzero(kinds)[0]), operator.context, operator.why_insertions_only
    return InvalidProgramError(
        f"operator {context.name!r} (uid {context.uid}, subtask {context.subtask}) takes insertions alone "
        f"({why}), but a record is {symbols_of(kinds[row : row + 1])}; there may be {CHANGES}\n"
        f"  record: {record_text(batch.slice(row, row + 1).rows[0])}\n"
        f"  operator defined at {context.call_site}"
    )
