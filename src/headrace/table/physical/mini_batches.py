"""Mini-batches in plans: aggregates of two phases, and the nodes that mark where mini-batches begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Final

from headrace.common.configuration import Configuration
from headrace.common.logical_types import bigint
from headrace.operators.functions import has_own
from headrace.table.functions.python.aggregates import user_aggregate
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.scalars import AggregateCall
from headrace.table.options import AGG_PHASES, INCREMENTAL_AGGREGATES, MINI_BATCH, MINI_BATCH_LATENCY, MINI_BATCH_SIZE
from headrace.table.physical.aggregates import GroupAggregate, growing_calls
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, WatermarkAssigner
from headrace.table.physical.call_texts import merging_texts, partial_texts
from headrace.table.physical.changes import ChangelogNormalize
from headrace.table.physical.group_windows import GroupWindowAggregate
from headrace.table.physical.joins import Join
from headrace.table.physical.node import PassingNode, PhysicalNode, ScalarText, Terms, names_text

_UNMERGED: Final = frozenset(("FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE"))
"""Functions whose partial results cannot be merged."""

_COUNT: Final = AggregateCall("COUNT", (), bigint().not_null())

_BY_CLOCK, _BY_WATERMARK = "ProcTime", "RowTime"


@dataclass(frozen=True)
class _PlanNode(PassingNode):
    """A node that no operator computes."""

    passes_rows: ClassVar[bool] = True
    is_executed: ClassVar[bool] = False


@dataclass(frozen=True)
class MiniBatchAssigner(_PlanNode):
    """Begins mini-batches. Operators end them with the epoch, and earlier when they have enough rows.

    Attributes:
        interval: how long a mini-batch may take in Flink, in milliseconds.
        by: whether the clock ends mini-batches there, or the watermark.
    """

    name: ClassVar[str] = "MiniBatchAssigner"
    interval: int
    by: str

    def terms(self, text: ScalarText) -> Terms:
        yield "interval", f"{self.interval}ms"
        yield "mode", self.by


@dataclass(frozen=True)
class LocalGroupAggregate(_PlanNode):
    """Partial aggregates of the mini-batches of each sender.

    The planner of the graph decides which records senders aggregate and which they send as they are. So its columns are
    those of its input.
    """

    name: ClassVar[str] = "LocalGroupAggregate"
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    level: str = ""

    @property
    def retracts(self) -> bool:
        """Return whether rows may be retracted."""
        return not self.input.mode.is_insert_only

    @property
    def counted_calls(self) -> tuple[AggregateCall, ...]:
        """The calls, and a count of rows where they may be retracted."""
        counts = [call for call in self.calls if call.function == "COUNT" and not call.operands and call.filter is None]
        return self.calls if counts or not self.retracts else (*self.calls, _COUNT)

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        keys = [names[index] for index in self.group]
        if keys:
            yield "groupBy", names_text(keys)
        if self.level:
            yield "partialFinalType", self.level
        calls = self.counted_calls
        growing = growing_calls(self.input, self.group, calls)
        yield "select", names_text([*keys, *partial_texts(calls, names, retracts=self.retracts, growing=growing)])


@dataclass(frozen=True)
class GlobalGroupAggregate(GroupAggregate):
    """Aggregates of each group, from the accumulators of senders and from rows.

    Attributes:
        merges_levels: whether the second of two levels takes accumulators of the first one.
    """

    name: ClassVar[str] = "GlobalGroupAggregate"
    has_two_phases: ClassVar[bool] = True
    merges_levels: bool = True

    @property
    def local(self) -> LocalGroupAggregate:
        """The aggregates of senders."""
        (node,) = self.input.inputs
        assert isinstance(node, LocalGroupAggregate)
        return node

    @property
    def retracts(self) -> bool:
        return self.local.retracts

    @property
    def identity(self) -> str:
        rows = self.local.input
        given = {field.name: getattr(self, field.name) for field in fields(GroupAggregate)}
        return GroupAggregate(**(given | {"input": Exchange(rows, mode=rows.mode)})).identity

    @property
    def is_incremental(self) -> bool:
        return self.level == "FINAL" and self.merges_levels

    @property
    def call_texts(self) -> list[str]:
        growing = growing_calls(self.local.input, self.local.group, self.calls)
        texts = merging_texts(self.calls, retracts=self.retracts, growing=growing)
        return [f"{text} AS {name}" for text, name in zip(texts, self.schema.names[len(self.group) :], strict=True)]


def with_mini_batches(root: PhysicalNode, settings: Configuration) -> PhysicalNode:
    """The plan with mini-batches, if they are enabled.

    Raises:
        PlanningError: when they are, and neither their interval nor their size is set.
    """
    if not settings.get(MINI_BATCH):
        return root
    if settings.get(MINI_BATCH_SIZE) <= 0 and any(
        isinstance(node, GroupAggregate | ChangelogNormalize) for node in root.walk()
    ):
        raise PlanningError(f"{MINI_BATCH.key} needs {MINI_BATCH_SIZE.key}: set it to 5000, say")
    if settings.get(AGG_PHASES) != "ONE_PHASE":
        root = _in_two_phases(root, merges_levels=settings.get(INCREMENTAL_AGGREGATES))
    root = _with_batched_joins(root)
    return _Assigners(settings.get(MINI_BATCH_LATENCY)).under(root, _BY_CLOCK, is_root=True)


def _with_batched_joins(node: PhysicalNode) -> PhysicalNode:
    node = node.with_inputs([_with_batched_joins(child) for child in node.inputs])
    return replace(node, has_mini_batches=True) if isinstance(node, Join) else node


def _in_two_phases(node: PhysicalNode, *, merges_levels: bool) -> PhysicalNode:
    """The plan in which aggregates have two phases if all their functions can be merged, as in Flink's planner."""
    node = node.with_inputs([_in_two_phases(child, merges_levels=merges_levels) for child in node.inputs])
    if not isinstance(node, GroupAggregate) or not has_two_phases(node):
        return node
    exchange = node.input
    assert isinstance(exchange, Exchange)
    local = LocalGroupAggregate(exchange.input, node.group, node.calls, node.level)
    given = {field.name: getattr(node, field.name) for field in fields(node)}
    given |= {"input": Exchange(local, exchange.keys), "merges_levels": merges_levels}
    return GlobalGroupAggregate(**given)


def has_two_phases(node: GroupAggregate) -> bool:
    """Return whether all functions of an aggregate can be merged, so that it may have two phases."""
    return all(map(_can_be_merged, node.calls))


def _can_be_merged(call: AggregateCall) -> bool:
    user = user_aggregate(call.options)
    return call.function not in _UNMERGED if user is None else has_own(user.user.function, "merge")


@dataclass(frozen=True)
class _Assigners:
    """Puts the nodes in where mini-batches begin: above sources and watermarks.

    Attributes:
        latency: how long a mini-batch may take, in milliseconds.
    """

    latency: int

    def under(self, node: PhysicalNode, by: str, *, is_root: bool = False) -> PhysicalNode:
        """The plan under a node whose rows come in mini-batches that end by the clock, or by the watermark."""
        if isinstance(node, GroupWindowAggregate):  # Flink has no mini-batches below these windows
            return node
        by = _BY_WATERMARK if node.requires_watermark else by
        return node.with_inputs(list(self._inputs(node, by, is_root=is_root)))

    def _inputs(self, node: PhysicalNode, by: str, *, is_root: bool) -> Iterator[PhysicalNode]:
        for child in node.inputs:
            if isinstance(child, WatermarkAssigner) or (isinstance(child, TableSourceScan) and not is_root):
                yield self._begun(child, by)
            else:
                yield self.under(child, by, is_root=is_root and isinstance(child, Calc))

    def _begun(self, node: PhysicalNode, by: str) -> PhysicalNode:
        if self.latency <= 0:
            raise PlanningError(f"{MINI_BATCH.key} needs {MINI_BATCH_LATENCY.key}: set it to '5 s', say")
        return MiniBatchAssigner(node, self.latency, by, mode=node.mode)
