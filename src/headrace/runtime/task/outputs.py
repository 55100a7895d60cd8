"""Where the operators of a chain send what they emit: to the next operators, and to the exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.common.constants import MIN_WATERMARK
from headrace.exchange.keying import KeyFunctionError, keys_of
from headrace.operators.keyed import KeyedBatch
from headrace.operators.user_code import UserCodeGuard, user_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.batch import Batch
    from headrace.exchange.sender import EdgeSender
    from headrace.operators.base import Operator, OperatorContext
    from headrace.plan.job_plan import PlannedEdge, PlannedOperator
    from headrace.runtime.task.rounds import Round, Trace
    from headrace.runtime.task.watermark_valve import WatermarkValve


class _KeyFunctionGuard(UserCodeGuard):
    """Knows the record that a key function failed with."""

    __slots__ = ()

    def _told(self, error: BaseException) -> BaseException:
        if isinstance(error, KeyFunctionError):
            return user_error(error.__cause__ or error, self._context, error.record)
        return super()._told(error)


def calling_key_function(context: OperatorContext) -> UserCodeGuard:
    """Turns what a key function raises, and keys or records that do not fit, into an error that names the operator."""
    return _KeyFunctionGuard(context)


class Target(Protocol):
    """Takes what an operator emits."""

    def accept(self, batch: Batch) -> None:
        """Records."""

    def advance(self, watermark: int) -> None:
        """A watermark."""


class ChainingOutput:
    """Hands records to the next operator of the same task.

    Args:
        valve: that of the next operator.
        edge: the edge between the two.
        context: the operator whose key function is called when the edge wants keys.
    """

    def __init__(self, valve: WatermarkValve, edge: PlannedEdge, context: OperatorContext) -> None:
        self._valve = valve
        self._edge = edge
        self._context = context

    def accept(self, batch: Batch) -> None:
        if self._edge.key is not None:
            with calling_key_function(self._context):
                batch = KeyedBatch.of(batch, keys_of(batch, self._edge.key))
        self._valve.accept(self._edge.id, self._edge, batch)

    def advance(self, watermark: int) -> None:
        self._valve.advance(self._edge.id, watermark)


class SendMeeting(Protocol):
    """Branches that meet behind a shuffle."""

    def wait(self, target: ExchangeOutput, batch: Batch) -> None:
        """Records are to be sent, but the round is not over."""


class ExchangeOutput:
    """Hands records to the exchange.

    Args:
        sender: the sending end of the edge.

    Attributes:
        meeting: what records have to wait for before they are sent.
    """

    def __init__(self, sender: EdgeSender) -> None:
        self.sender = sender
        self.meeting: SendMeeting | None = None

    def accept(self, batch: Batch) -> None:
        if self.meeting is None:
            self.sender.send(batch)
        else:
            self.meeting.wait(self, batch)

    def advance(self, watermark: int) -> None:
        """The last watermark travels with the summary at the end of the epoch."""


class BroadcastingOutput:
    """The output of an operator: copies what it emits to all that read from it.

    Attributes:
        watermark: the last one that was passed on.
        trace: keeps the watermarks of what is emitted, where branches that meet again want to know.
        rounds: by output, the rounds of the branching that has its root here.
    """

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        self.trace: Trace | None = None
        self.rounds: dict[str | None, Round] = {}
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
            if self.trace is not None:
                self.trace.note(batch)
            self._hand_on(batch, self._main, self.rounds.get(None))

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        if len(batch):
            self._hand_on(batch, self._sides.get(tag_id, ()), self.rounds.get(tag_id))

    def advance_watermark(self, watermark: int) -> None:
        self.watermark = watermark
        for target in self._main:
            target.advance(watermark)
        for targets in self._sides.values():
            for target in targets:
                target.advance(watermark)

    def _hand_on(self, batch: Batch, targets: Iterable[Target], rounds: Round | None) -> None:
        if rounds is not None:
            batch = rounds.set_out(batch)
        for target in targets:
            target.accept(batch)
        if rounds is not None:
            rounds.end()


@dataclass(slots=True)
class ChainedOperator:
    """One operator of a chain with its input and its outputs."""

    planned: PlannedOperator
    operator: Operator
    valve: WatermarkValve
    output: BroadcastingOutput
    senders: list[EdgeSender] = field(default_factory=list)
