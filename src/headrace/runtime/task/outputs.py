"""Where the operators of a chain send what they emit: to the next operators, and to the exchange."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from headrace.common.constants import MIN_WATERMARK
from headrace.exchange.keying import keys_of
from headrace.graph.partitioning import ForwardByKey
from headrace.operators.blame import OperatorBlame
from headrace.operators.keyed import KeyedBatch
from headrace.operators.user_code import calling_user_code
from headrace.state.copying import copy_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.common.batch import Batch
    from headrace.exchange.sender import EdgeSender
    from headrace.operators.base import OperatorContext
    from headrace.plan.job_plan import PlannedEdge
    from headrace.runtime.task.forks import Fork, Merge, WatermarkLog
    from headrace.runtime.task.watermark_valve import WatermarkValve


class Target(Protocol):
    """Takes what an operator emits."""

    def accept(self, batch: Batch) -> None:
        """Takes records, in the order of the stream."""

    def advance(self, watermark: int) -> None:
        """Nothing at or below ``watermark`` follows."""


class ChainingOutput:
    """Hands records to the next operator of the same task.

    Args:
        valve: that of the next operator.
        edge: the edge between the two.
        context: the operator whose key function is called when the edge wants keys.

    Attributes:
        edge: the edge.
        merge: where records have to wait before the operator sees them.
    """

    def __init__(self, valve: WatermarkValve, edge: PlannedEdge, context: OperatorContext) -> None:
        self._valve = valve
        self.edge = edge
        self.merge: Merge | None = None
        self._context = context

    def accept(self, batch: Batch) -> None:
        if self.edge.key is not None:
            with calling_user_code(self._context):
                keys = keys_of(batch, self.edge.key)
                if isinstance(self.edge.partitioning, ForwardByKey):
                    self.edge.partitioning.check(batch, keys, self._context.subtask, self.edge.receivers)
                batch = KeyedBatch.of(batch, keys)
        if self.merge is None:
            self._valve.accept(self.edge.id, self.edge, batch)
        else:
            self.merge.wait(self, batch)

    def advance(self, watermark: int) -> None:
        self._valve.advance(self.edge.id, watermark)


class ExchangeOutput:
    """Hands records to the exchange.

    Args:
        sender: the sending end of the edge.

    Attributes:
        edge: the edge.
        merge: where records have to wait before they are sent.
    """

    def __init__(self, sender: EdgeSender) -> None:
        self.sender = sender
        self.edge = sender.edge
        self.merge: Merge | None = None

    def accept(self, batch: Batch) -> None:
        if self.merge is None:
            self.sender.send(batch)
        else:
            self.merge.wait(self, self.sender.prepared(batch))

    def advance(self, watermark: int) -> None:
        """The last watermark travels with the summary at the end of the epoch."""


class BroadcastingOutput:
    """The output of an operator: copies what it emits to all that read from it.

    Args:
        context: the operator.
        maker: the user's function whose results are the records that are emitted, if there is one alone.

    Attributes:
        watermark: the last one that was passed on.
        log: remembers the watermarks of what is emitted, where branches merge that depend on it.
        forks: by side output (None for the main output), the fork that it is.
    """

    def __init__(self, context: OperatorContext, maker: Callable[..., Any] | None = None) -> None:
        self._blame = OperatorBlame(context, maker)
        self.watermark = MIN_WATERMARK
        self.log: WatermarkLog | None = None
        self.forks: dict[str | None, Fork] = {}
        self._main: list[Target] = []
        self._sides: dict[str, list[Target]] = {}

    def add(self, side_output: str | None, target: Target) -> None:
        """Let ``target`` read from the main output or from a side output."""
        targets = self._main if side_output is None else self._sides.setdefault(side_output, [])
        targets.append(target)

    def emit(self, batch: Batch) -> None:
        if len(batch):
            if self.log is not None:
                self.log.add(batch)
            self._hand_on(batch, self._main, self.forks.get(None))

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        if len(batch):
            if batch.blame is None:
                batch.blame = replace(self._blame, side_output=tag_id)
            self._hand_on(batch, self._sides.get(tag_id, ()), self.forks.get(tag_id))

    def advance_watermark(self, watermark: int) -> None:
        self.watermark = watermark
        for target in self._main:
            target.advance(watermark)
        for targets in self._sides.values():
            for target in targets:
                target.advance(watermark)

    def _hand_on(self, batch: Batch, targets: Sequence[Target], fork: Fork | None) -> None:
        if batch.blame is None:  # else it is passed through as it came
            batch.blame = self._blame
        if fork is not None:
            batch = fork.begin(batch)
        # Who reads them in this task may change them, so they are the last one's own; what is sent may wait.
        owner = next((target for target in reversed(targets) if isinstance(target, ChainingOutput)), None)
        given = [batch if owner in (None, target) else batch.unshared(copy_value) for target in targets]
        for target, own in zip(targets, given, strict=True):
            target.accept(own)
        if fork is not None:
            fork.end()
