"""How the operators of one task are joined: gates before them, fan-outs behind them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from headrace.common.constants import MIN_WATERMARK
from headrace.exchange.keying import KeyFunctionError, keys_of
from headrace.operators.keyed import KeyedBatch
from headrace.operators.user_code import calling_user_code, user_error
from headrace.runtime.task.inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.common.batch import Batch
    from headrace.exchange.sender import EdgeSender
    from headrace.operators.base import Operator, OperatorContext
    from headrace.plan.job_plan import PlannedEdge
    from headrace.runtime.task.inputs import Siblings


class Gate:
    """Stands before an operator and holds its event time to the slowest of its inputs (Flink's status watermark valve).

    An input is a chained edge, or everything that came through the exchange. Most operators have one input; then a gate
    only counts.

    Args:
        operator: the operator.
        inputs: its inputs.
    """

    def __init__(self, operator: Operator, inputs: Inputs | None = None) -> None:
        self.operator = operator
        self.watermark = MIN_WATERMARK
        self.records = 0
        self.inputs = inputs or Inputs()
        self._only: int | None = None

    def begin(self, inputs: Mapping[int, int], watermark: int) -> None:
        """Start of an epoch, or of a piece of a split.

        Args:
            inputs: the watermark of each input that is not idle.
            watermark: the event time that the operator has reached.
        """
        self.inputs.begin(inputs)
        self._only = None if len(inputs) > 1 else next(iter(inputs), None)
        self.watermark = watermark

    def accept(self, source: int, edge: PlannedEdge, batch: Batch) -> None:
        """Records of one input."""
        self.records += len(batch)
        if source != self._only:
            batch = self._held_back(source, batch)
        self.watermark = int(batch.watermarks[-1])
        self.operator.process(edge.input_index, batch)

    def advance(self, source: int, watermark: int) -> None:
        """One input has reached ``watermark``; an idle one has no say."""
        self.inputs.advance(source, watermark)
        self.watermark = max(self.inputs.slowest(), self.watermark)
        self.operator.advance_watermark(self.watermark)

    def _held_back(self, source: int, batch: Batch) -> Batch:
        """The same records under the watermark that all inputs have reached."""
        limit = self.inputs.limit(source)
        # What an idle input still has to say moves nothing.
        reached = self.watermark if limit is None or source not in self.inputs else limit
        self.inputs.advance(source, int(batch.watermarks[-1]))
        return batch.with_watermarks(np.maximum(np.minimum(batch.watermarks, reached), self.watermark))


@contextmanager
def calling_key_function(context: OperatorContext) -> Iterator[None]:
    """Turns what a key function raises, and keys or records that do not fit, into an error that names the operator."""
    with calling_user_code(context):
        try:
            yield
        except KeyFunctionError as error:
            cause = error.__cause__ or error
            raise user_error(cause, context, error.record) from cause


class Target(Protocol):
    """Takes what an operator emits."""

    def accept(self, batch: Batch) -> None:
        """Records."""

    def advance(self, watermark: int) -> None:
        """A watermark."""


class ChainedTarget:
    """Hands records to the next operator of the same task.

    Args:
        gate: the gate of that operator.
        edge: the edge between the two.
        context: the operator whose key function is called when the edge wants keys.
    """

    def __init__(self, gate: Gate, edge: PlannedEdge, context: OperatorContext) -> None:
        self._gate = gate
        self._edge = edge
        self._context = context

    def accept(self, batch: Batch) -> None:
        if self._edge.key is not None:
            with calling_key_function(self._context):
                batch = KeyedBatch.of(batch, keys_of(batch, self._edge.key))
        self._gate.accept(self._edge.id, self._edge, batch)

    def advance(self, watermark: int) -> None:
        self._gate.advance(self._edge.id, watermark)


class ExchangeTarget:
    """Hands records to the exchange.

    Args:
        sender: the sending end of the edge.
        siblings: the edges that hold this one back, if there are any.
    """

    def __init__(self, sender: EdgeSender, siblings: Siblings | None = None) -> None:
        self.sender = sender
        self._siblings = siblings

    def accept(self, batch: Batch) -> None:
        if self._siblings is not None:
            batch = self._siblings.hold_back(self.sender.edge.id, batch)
        self.sender.send(batch)

    def advance(self, watermark: int) -> None:
        """The last watermark travels with the summary at the end of the epoch."""
        if self._siblings is not None:
            self._siblings.inputs.advance(self.sender.edge.id, watermark)


class Fanout:
    """Stands behind an operator and copies what it emits to all that read from it."""

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        self._main: list[Target] = []
        self._sides: dict[str, list[Target]] = {}

    def add(self, side_output: str | None, target: Target) -> None:
        """Let ``target`` read from the main output or from a side output."""
        targets = self._main if side_output is None else self._sides.setdefault(side_output, [])
        targets.append(target)

    def side_outputs(self) -> Iterable[str]:
        """The side outputs that somebody reads."""
        return self._sides.keys()

    def emit(self, batch: Batch) -> None:
        if len(batch):
            for target in self._main:
                target.accept(batch)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        if len(batch):
            for target in self._sides.get(tag_id, ()):
                target.accept(batch)

    def advance_watermark(self, watermark: int) -> None:
        self.watermark = watermark
        for target in self._main:
            target.advance(watermark)
        for targets in self._sides.values():
            for target in targets:
                target.advance(watermark)
