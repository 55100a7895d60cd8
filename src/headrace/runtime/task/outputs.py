"""The outputs of the operators of a chain: the valves of the next operators, and the exchange.

Where a chain forks and its branches join again, records wait until the batch has gone by all branches, so that they
come in the order and under the watermarks that they would have come in one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.types import symbols_of
from headrace.exchange.receiver import merged
from headrace.exchange.sender import EdgeSender, keys_of
from headrace.graph.partitioning import ForwardByKey
from headrace.graph.specs import CHANGES
from headrace.operators.base import KeyedBatch, Operator, OperatorContext
from headrace.operators.collector import OperatorRecordOrigin
from headrace.operators.user_code import UserCodeGuard, record_text
from headrace.plan.job_plan import FORK, PlannedEdge, PlannedFork, Stage, send_alike
from headrace.runtime.task.task_clock import TaskClock
from headrace.state.copying import copy_value

if TYPE_CHECKING:
    from headrace.operators.timestamps import TimestampsOperator

    Longs = npt.NDArray[np.int64]


EXCHANGE: Final = -1
"""Stands for all exchanged edges of an operator together: the receiver has merged them."""


class WatermarkValve:
    """Passes records and watermarks on to an operator; as Flink's ``StatusWatermarkValve``.

    An input is a chained edge, or everything that came through the exchange. Most operators have one input; then it
    only counts records.

    Args:
        operator: the operator.
        lag: by how many milliseconds its event time is behind that of its inputs.
        clock: measures the task.
        uid: the operator's.

    Attributes:
        watermark: what all inputs have reached.
    """

    def __init__(self, operator: Operator, lag: int = 0, clock: TaskClock | None = None, uid: str = "") -> None:
        self.operator = operator
        self._clock = clock or TaskClock()
        self._uid = uid
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
        """One input has reached ``watermark``; an idle one does not count."""
        self._reach(source, watermark)
        self.watermark = max(min(self._reached.values()), self.watermark)
        before = self._clock.switch(self._uid)
        self.operator.advance_watermark(self._behind(self.watermark) if self._lag else self.watermark)
        self._clock.switch(before)

    def _reach(self, source: int, watermark: int) -> None:
        if source in self._reached:
            self._reached[source] = max(watermark, self._reached[source])

    def _pass(self, input_index: int, batch: Batch) -> None:
        self.watermark = batch.last_watermark
        if self.operator.why_insertions_only and batch.kinds is not None:
            raise _refusal(batch, batch.kinds, self.operator)
        if self._lag:
            batch = batch.with_watermarks(self._all_behind(batch.watermarks))
        before = self._clock.switch(self._uid)
        self.operator.process(input_index, batch)
        self._clock.switch(before)

    def _behind(self, watermark: int) -> int:
        """The operator's event time where its inputs have reached a watermark."""
        return watermark if watermark == MAX_WATERMARK else max(watermark - self._lag, self._event_time)

    def _all_behind(self, watermarks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The same for many watermarks."""
        behind = np.maximum(np.maximum(watermarks, MIN_WATERMARK + self._lag) - self._lag, self._event_time)
        return np.where(watermarks == MAX_WATERMARK, MAX_WATERMARK, behind)

    def _limit(self, sources: Collection[int]) -> int | None:
        """The watermark that all inputs but these have reached; these come on their own, so it stays as it is."""
        if self._reached.keys().isdisjoint(sources):
            # A watermark of an idle input moves nothing.
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


@dataclass(eq=False, slots=True)
class ChainingOutput:
    """Hands records to the next operator of the same task.

    Attributes:
        valve: that of the next operator.
        edge: the edge between the two.
        context: the operator whose key function is called when the edge needs keys.
        divert: takes records while they have to wait for others before the operator gets them.
    """

    valve: WatermarkValve
    edge: PlannedEdge
    context: OperatorContext
    divert: Callable[[ChainingOutput, Batch], None] | None = None

    def send(self, batch: Batch) -> None:
        """Hand records on, in the order of the stream."""
        if self.edge.key is not None:
            with UserCodeGuard(self.context):
                keys = keys_of(batch, self.edge.key)
                if isinstance(self.edge.partitioning, ForwardByKey):
                    self.edge.partitioning.check(batch, keys, self.context.subtask, self.edge.receivers)
                batch = KeyedBatch.of(batch, keys)
        if self.divert is None:
            self.valve.accept(self.edge.id, self.edge, batch)
        else:
            self.divert(self, batch)


class BroadcastingOutput:
    """The output of an operator: copies what it emits to all that read from it.

    Args:
        context: the operator.
        maker: the user's function whose results are the records that are emitted, if there is one alone.

    Attributes:
        watermark: the last one that was passed on.
        records: how many were emitted in the epoch.
        log: remembers the watermarks of what is emitted, where branches merge that depend on it.
        forks: by side output (None for the main output), the fork that it is.
    """

    def __init__(self, context: OperatorContext, maker: Callable[..., Any] | None = None) -> None:
        self._blame = OperatorRecordOrigin(context, maker)
        self.watermark = MIN_WATERMARK
        self.records = 0
        self.log: WatermarkLog | None = None
        self.forks: dict[str | None, Fork] = {}
        self._main: list[EdgeOutput] = []
        self._sides: dict[str, list[EdgeOutput]] = {}

    def add(self, side_output: str | None, target: EdgeOutput) -> None:
        """Let ``target`` read from the main output or from a side output."""
        targets = self._main if side_output is None else self._sides.setdefault(side_output, [])
        targets.append(target)

    def emit(self, batch: Batch) -> None:
        if len(batch):
            self.records += len(batch)
            if self.log is not None:
                self.log.add(batch)
            self._hand_on(batch, self._main, self.forks.get(None))

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        if len(batch):
            self.records += len(batch)
            if batch.blame is None:
                batch.blame = replace(self._blame, side_output=tag_id)
            self._hand_on(batch, self._sides.get(tag_id, ()), self.forks.get(tag_id))

    def advance_watermark(self, watermark: int) -> None:
        self.watermark = watermark  # crosses shuffles with the summary of the channel at the end of the epoch
        for target in chain(self._main, *self._sides.values()):
            if isinstance(target, ChainingOutput):
                target.valve.advance(target.edge.id, watermark)

    def _hand_on(self, batch: Batch, targets: Sequence[EdgeOutput], fork: Fork | None) -> None:
        if batch.blame is None:  # else it is passed through as it came
            batch.blame = self._blame
        if fork is not None:
            batch = fork.begin(batch)
        if len(targets) == 1:
            targets[0].send(batch)
        else:
            _send_to_all(batch, targets)
        if fork is not None:
            fork.end()


def _send_to_all(batch: Batch, targets: Sequence[EdgeOutput]) -> None:
    # Who reads them in this task may change them, so they are the last one's own; what is sent may wait.
    owner = next((target for target in reversed(targets) if isinstance(target, ChainingOutput)), None)
    given = [batch if owner in (None, target) else batch.unshared(copy_value) for target in targets]
    for target, own in zip(targets, given, strict=True):
        target.send(own)


EdgeOutput: TypeAlias = ChainingOutput | EdgeSender


class WatermarkLog:
    """The watermarks that one operator has made since the fork.

    Args:
        latest: gives what it has reached now.
    """

    def __init__(self, latest: Callable[[], int]) -> None:
        self._latest = latest
        self._batches: list[Batch] = []

    def clear(self) -> None:
        """Forget everything: another batch comes."""
        self._batches.clear()

    def add(self, batch: Batch) -> None:
        """Remember the watermarks of these records."""
        self._batches.append(batch)

    def at(self, ordinals: Longs) -> Longs:
        """The watermark before each record with one of these numbers: that of the next record that was seen."""
        seen = np.concatenate([np.empty(0, dtype=np.int64), *(ordinals_of(batch) for batch in self._batches)])
        said = np.concatenate([*(batch.watermarks for batch in self._batches), np.array([self._latest()])])
        found: Longs = said[np.searchsorted(seen, ordinals, side="left")]
        return found


class BranchMerge(ABC):
    """Joins the branches of one fork: records wait here until the batch has passed all branches.

    Args:
        logs: by output that leads here, what makes the watermarks of its records.
    """

    def __init__(self, logs: Mapping[EdgeOutput, Sequence[WatermarkLog]]) -> None:
        self._logs = logs
        self._waiting: list[tuple[EdgeOutput, Batch]] = []

    def open(self) -> None:
        """A batch leaves the fork: what comes has to wait."""
        self._waiting = []
        for output in self._logs:
            output.divert = self.wait

    def wait(self, output: EdgeOutput, batch: Batch) -> None:
        """Records have come by one of the branches."""
        self._waiting.append((output, batch))

    def close(self) -> None:
        """The batch has gone by all branches: pass on what waits, in the order in which records left the fork."""
        for output in self._logs:
            output.divert = None
        if not self._waiting:
            return
        counting = {log for output, logs in self._logs.items() if self._counts(output) for log in logs}
        inputs: dict[int, list[Batch]] = {}
        for output, batch in self._waiting:
            met = batch.with_watermarks(slowest_at(counting, batch))
            inputs.setdefault(self._input_of(output), []).append(met)
        self._pass_on(merged(inputs, ordinals_of))

    def _counts(self, output: EdgeOutput) -> bool:
        """Return whether event time waits for what comes by an output."""
        return True

    @abstractmethod
    def _input_of(self, output: EdgeOutput) -> int:
        """Records of outputs with the same number become one input, whose records keep their order."""

    @abstractmethod
    def _pass_on(self, batches: Iterator[tuple[int, Batch]]) -> None:
        """Take the records, input by input."""


class ChainMerge(BranchMerge):
    """Branches that merge in front of an operator of the chain.

    Args:
        valve: the operator's.
        logs: as of :class:`BranchMerge`.
    """

    def __init__(self, valve: WatermarkValve, logs: Mapping[EdgeOutput, Sequence[WatermarkLog]]) -> None:
        super().__init__(logs)
        self._valve = valve

    def _counts(self, output: EdgeOutput) -> bool:
        return self._valve.counts(output.edge.id)

    def _input_of(self, output: EdgeOutput) -> int:
        return output.edge.input_index

    def _pass_on(self, batches: Iterator[tuple[int, Batch]]) -> None:
        reached = {output.edge.id: int(batch.watermarks[-1]) for output, batch in self._waiting}
        self._valve.accept_merged([output.edge.id for output in self._logs], reached, batches)


class ExchangeMerge(BranchMerge):
    """Branches that merge behind a shuffle.

    The receiver merges edges by watermark, so what all branches had reached is in the stamps already when records are
    sent. And edges that send alike are as one, so that records keep the order in which they left the fork.

    Args:
        senders: by output, the one that sends for it.
        logs: as of :class:`BranchMerge`.
    """

    def __init__(
        self,
        senders: Mapping[EdgeSender, EdgeSender],
        logs: Mapping[EdgeOutput, Sequence[WatermarkLog]],
    ) -> None:
        super().__init__(logs)
        self._sender_of = {output.edge.id: sender.edge.id for output, sender in senders.items()}
        self._senders = {sender.edge.id: sender for sender in senders.values()}

    def _input_of(self, output: EdgeOutput) -> int:
        return self._sender_of[output.edge.id]

    def _pass_on(self, batches: Iterator[tuple[int, Batch]]) -> None:
        for edge, batch in batches:
            self._senders[edge].send_prepared(batch)


@dataclass(frozen=True, slots=True)
class Fork:
    """An output whose branches merge again.

    Attributes:
        own: the watermarks of what leaves the fork.
        logs: of all operators that make watermarks between the fork and the merges.
        merges: in topological order.
    """

    own: WatermarkLog
    logs: Sequence[WatermarkLog]
    merges: Sequence[BranchMerge]

    def begin(self, batch: Batch) -> Batch:
        """The records of a batch that is to go by all branches, with their numbers."""
        for log in (self.own, *self.logs):
            log.clear()
        for merge in self.merges:
            merge.open()
        numbered = batch.with_ordinals(np.arange(len(batch)))
        self.own.add(numbered)
        return numbered

    def end(self) -> None:
        """The batch has gone by all branches."""
        for merge in self.merges:
            merge.close()


def ordinals_of(batch: Batch) -> Longs:
    """The numbers of the records; what is made of a batch as a whole is made of its first record."""
    return np.zeros(len(batch), dtype=np.int64) if batch.ordinals is None else batch.ordinals


def slowest_at(logs: Iterable[WatermarkLog], batch: Batch) -> Longs:
    """The watermark that all of these operators had reached at each record, which has its own watermark besides."""
    ordinals = ordinals_of(batch)
    slowest: Longs = np.minimum.reduce([batch.watermarks, *(log.at(ordinals) for log in logs)])
    return slowest


class WiredOperator(Protocol):
    """An operator of a chain, as far as forks look at it.

    Attributes:
        valve: what its input comes through.
        timestamps: the operator if it makes watermarks.
        output: where its records go.
    """

    valve: WatermarkValve
    timestamps: TimestampsOperator | None
    output: BroadcastingOutput


def wire_forks(
    stage: Stage,
    operators: Mapping[int, WiredOperator],
    outputs: Mapping[int, BroadcastingOutput],
    edges: Mapping[int, EdgeOutput],
) -> None:
    """Put the forks of a stage into a chain, as far as their branches are in this task.

    Args:
        stage: the stage.
        operators: by node id, the operators of the chain.
        outputs: by node id, the outputs of operators and sources.
        edges: by edge, where its records go; edges between operators that are not all in this task are missing.
    """
    for planned in stage.forks:
        if planned.node in outputs:
            _ForkWiring(planned, operators, outputs, edges).wire()


@dataclass(frozen=True, slots=True)
class _ForkWiring:
    planned: PlannedFork
    operators: Mapping[int, WiredOperator]
    outputs: Mapping[int, BroadcastingOutput]
    edges: Mapping[int, EdgeOutput]

    def wire(self) -> None:
        output = self.outputs[self.planned.node]
        own = WatermarkLog(lambda: output.watermark)
        logs = {node: self._log_of(node) for node in self.planned.watermark_operators & self.operators.keys()}
        merges = list(self._merges({FORK: own, **logs}))
        output.forks[self.planned.side_output] = Fork(own, tuple(logs.values()), merges)

    def _merges(self, logs: Mapping[int, WatermarkLog]) -> Iterator[BranchMerge]:
        for merging in self.planned.merges:
            edges = [edge for edge in merging if edge.id in self.edges]  # some may be of other tasks only
            if len(edges) < 2:
                continue
            makers = {edge.id: self.planned.watermarks_from[edge.id].intersection(logs) for edge in edges}
            of_outputs = {self.edges[edge]: [logs[maker] for maker in found] for edge, found in makers.items()}
            if not edges[0].is_exchange:
                yield ChainMerge(self.operators[edges[0].target].valve, of_outputs)
                continue
            senders = self._senders(edges)
            if len(senders) > len(set(senders.values())) or len(set(makers.values())) > 1:
                yield ExchangeMerge(senders, of_outputs)

    def _senders(self, edges: Sequence[PlannedEdge]) -> dict[EdgeSender, EdgeSender]:
        """Return where each edge enters the exchange, and where one does that sends for it."""
        senders = {edge.id: next(first for first in edges if send_alike(first, edge)).id for edge in edges}
        return {self._sender(edge): self._sender(sender) for edge, sender in senders.items()}

    def _sender(self, edge: int) -> EdgeSender:
        sender = self.edges[edge]
        assert isinstance(sender, EdgeSender)
        return sender

    def _log_of(self, node: int) -> WatermarkLog:
        """Return the log of an operator that makes watermarks."""
        timestamps, output = self.operators[node].timestamps, self.operators[node].output
        assert timestamps is not None
        if output.log is None:
            output.log = WatermarkLog(lambda: timestamps.watermark)
        return output.log
