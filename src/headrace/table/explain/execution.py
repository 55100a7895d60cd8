"""Execution plans: nodes that they have in place of others, operators of several inputs, exchanges that move nothing.

In batch mode Flink computes a join, and the nodes without an exchange between them and it, in one operator, which
reads its inputs in an order. Where nodes rely on how rows are distributed and sorted already, an exchange says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import ClassVar, Final

from headrace.operators.changelog.order import RankStrategy
from headrace.operators.join.results import JoinType
from headrace.table.explain.phases import Phase
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.physical.basic import Calc, Exchange, ValuesScan
from headrace.table.physical.correlates import Correlate
from headrace.table.physical.joins import HashJoin, SortMergeJoin
from headrace.table.physical.node import PhysicalNode, ScalarText, Terms, names_text, node_line, tree_text
from headrace.table.physical.ranks import Rank


@dataclass(frozen=True)
class MultipleInput(PhysicalNode):
    """Nodes that are one operator of Flink.

    Attributes:
        sources: what it reads.
        columns: its columns.
        order: the place of each input in the order in which they are read.
        members: the nodes, as text.
    """

    name: ClassVar[str] = "MultipleInput"
    sources: tuple[PhysicalNode, ...]
    columns: Schema
    order: tuple[int, ...]
    members: str

    @property
    def schema(self) -> Schema:
        return self.columns

    def terms(self, text: ScalarText) -> Terms:
        yield "readOrder", ",".join(map(str, self.order))
        yield "members", self.members


@dataclass(frozen=True)
class StoredExchange(Exchange):
    """An exchange whose rows are read when all of them are there."""

    def terms(self, text: ScalarText) -> Terms:
        yield from super().terms(text)
        yield "shuffle_mode", "BATCH"


@singledispatch
def execution_node(node: PhysicalNode) -> PhysicalNode:
    """The node in the execution plan for one of the physical plan."""
    return node


@execution_node.register
def _values(values: ValuesScan) -> PhysicalNode:
    return replace(values, shows_type=False)


@dataclass(frozen=True)
class Deduplicate(PhysicalNode):
    """A rank that keeps the first or the last row by time."""

    name: ClassVar[str] = "Deduplicate"
    rank: Rank

    @property
    def schema(self) -> Schema:
        return self.rank.schema

    def terms(self, text: ScalarText) -> Terms:
        schema = self.rank.input.schema
        time = schema[self.rank.order_by[0].index].time
        yield "keep", "LastRow" if self.rank.keeps_last else "FirstRow"
        yield "key", names_text([schema.names[index] for index in self.rank.partition_by])
        yield "order", "ROWTIME" if time is TimeAttribute.ROWTIME else "PROCTIME"
        yield "outputInsertOnly", str(not self.rank.keeps_last and not self.rank.has_updates).lower()


@execution_node.register
def _rank(rank: Rank) -> PhysicalNode:
    return Deduplicate(rank) if rank.is_deduplication and rank.strategy is RankStrategy.APPEND else rank


@dataclass(frozen=True)
class AdaptiveJoin(HashJoin):
    """A hash join of which Flink decides at run time whether to broadcast an input."""

    name: ClassVar[str] = "AdaptiveJoin"

    def terms(self, text: ScalarText) -> Terms:
        yield "originalJoin", "ShuffleHashJoin"
        yield from super().terms(text)


@execution_node.register
def _hash_join(join: HashJoin) -> PhysicalNode:
    is_shuffled = all(isinstance(each, Exchange) and each.keys for each in join.inputs)
    is_fixed = join.is_hinted or join.kind is JoinType.FULL or join.name != HashJoin.name
    if is_fixed or not is_shuffled:
        return join
    return AdaptiveJoin(join.left, join.right, join.kind, join.condition, join.keys, join.builds_left)


def batch_execution_plan(root: PhysicalNode, text: ScalarText) -> PhysicalNode:
    """The execution plan of a plan of batch mode."""
    return _with_kept_distributions(_with_multiple_inputs(root, text))


def _with_multiple_inputs(node: PhysicalNode, text: ScalarText) -> PhysicalNode:
    """A plan in which joins stand together with the nodes below them that have no exchange in between."""
    if isinstance(node, HashJoin):
        node = _without_deadlock(node)
        if any(map(_is_member, node.inputs)):
            return _as_one(node, text)
    return node.with_inputs([_with_multiple_inputs(each, text) for each in node.inputs])


def _without_deadlock(join: HashJoin) -> HashJoin:
    """A join whose inputs do not wait for each other where both read the same rows."""
    probe = 1 if join.builds_left else 0
    read = set(_read(join.inputs[1 - probe]))
    if not any(node in read for node in (join.inputs[probe], *_at_once(join.inputs[probe]))):
        return join
    inputs, keys = list(join.inputs), (join.keys.left, join.keys.right)
    source, build = inputs[probe], inputs[1 - probe]
    if isinstance(source, Exchange):
        inputs[probe] = StoredExchange(source.input, source.keys)
    else:
        inputs[probe] = StoredExchange(source, keys[probe] or None)
        names = names_text([build.schema.names[index] for index in keys[1 - probe]])
        inputs[1 - probe] = _kept_of(build, names) if names else build
    made = join.with_inputs(inputs)
    assert isinstance(made, HashJoin)
    return made


def _read(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """The nodes that are read for the build side of a join, but for those of other build sides."""
    yield node
    below = (node.inputs[1 if node.builds_left else 0],) if isinstance(node, HashJoin) else node.inputs
    for each in below:
        yield from _read(each)


def _at_once(node: PhysicalNode, *, is_apart: bool = False) -> Iterator[PhysicalNode]:
    """The nodes whose rows come to a node without being stored, but for sources below an exchange."""
    if node.title not in _STORING and (node.inputs or not is_apart):
        yield node
        for each in node.inputs:
            yield from _at_once(each, is_apart=is_apart or _is_exchange(node))


_STORING: Final = frozenset(("HashAggregate", "SortAggregate", "Sort", "SortLimit", "HashJoin", "NestedLoopJoin"))


def _is_exchange(node: PhysicalNode) -> bool:
    return node.title == Exchange.name


def _is_member(node: PhysicalNode) -> bool:
    if _is_exchange(node) or not node.inputs:
        return False
    return isinstance(node, HashJoin) or (len(node.inputs) == 1 and any(map(_is_read_or_member, node.inputs)))


def _is_read_or_member(node: PhysicalNode) -> bool:
    return _is_exchange(node) or _is_member(node)


def _as_one(root: HashJoin, text: ScalarText) -> MultipleInput:
    leaves, level = list[PhysicalNode](), [root.inputs]
    numbers = dict[int, int]()
    while level:
        below = []
        for node in (each for inputs in level for each in inputs):
            if _is_member(node):
                below.append(node.inputs)
            else:
                numbers[id(node)] = len(leaves)
                leaves.append(node)
        level = below

    def line(node: PhysicalNode) -> str:
        if id(node) in numbers:
            return f"[#{numbers[id(node)] + 1}] {node_line(execution_node(node), text, with_mode=False)}"
        return node_line(node if isinstance(node, HashJoin) else execution_node(node), text, with_mode=False)

    def inputs(node: PhysicalNode) -> tuple[PhysicalNode, ...]:
        return () if id(node) in numbers else node.inputs

    top: PhysicalNode = root
    shown = tree_text(top, line, inputs).replace("\n", "\\n")
    order = _Order(numbers)
    order.follow(root)
    sources = tuple(_with_multiple_inputs(each, text) for each in leaves)
    return MultipleInput(sources, root.schema, order.levels(len(leaves)), f"\\n{shown}\\n")


class _Order:
    """The order in which inputs are read.

    Args:
        numbers: the numbers of inputs, by the identities of nodes.
    """

    def __init__(self, numbers: dict[int, int]) -> None:
        self._numbers = numbers
        self._earlier: dict[int, set[int]] = {}

    def follow(self, node: PhysicalNode) -> tuple[set[int], set[int]]:
        """All inputs of a node, and those of them that it reads when all others have been read."""
        if id(node) in self._numbers:
            number = self._numbers[id(node)]
            return {number}, {number}
        if not isinstance(node, HashJoin):
            return self.follow(node.inputs[0])
        build, probe = node.inputs if node.builds_left else reversed(node.inputs)
        first, of_build = self.follow(build)
        second, last = self.follow(probe)
        if isinstance(node, SortMergeJoin):
            return first | second, of_build | last
        for number in last:
            self._earlier.setdefault(number, set()).update(first)
        return first | second, last

    def levels(self, count: int) -> tuple[int, ...]:
        """The place of each input in the order."""
        return tuple(map(self._level, range(count)))

    def _level(self, number: int) -> int:
        return max((self._level(each) + 1 for each in self._earlier.get(number, ())), default=0)


_GLOBAL: Final = ("OverAggregate", "SortAggregate")
_LOCAL: Final = ("LocalSortAggregate",)
"""Nodes that read sorted rows: of keys that have been brought together, and of one task."""

_PASSING: Final = (Calc, Correlate)
"""Nodes that keep the order and the distribution of rows."""


def _with_kept_distributions(node: PhysicalNode) -> PhysicalNode:
    """A plan with the exchanges that Flink adds between nodes that rely on how rows are distributed and sorted."""
    node = node.with_inputs([_with_kept_distributions(child) for child in node.inputs])
    terms = dict(node.described) if isinstance(node, Phase) else {}
    keys = terms.get("partitionBy") or terms.get("groupBy")
    is_local = node.title in _LOCAL or (node.title == "Rank" and terms.get("global") == "false")
    if is_local and keys:
        return node.with_inputs([_forwarded(each, None) for each in node.inputs])
    if keys and node.title == "HashAggregate" and terms["isMerge"] == "false":
        return node.with_inputs([_kept_of(each, keys) for each in node.inputs])
    if keys and (node.title in _GLOBAL or (node.title == "Rank" and "global" in terms)):
        return node.with_inputs([_forwarded(each, keys) for each in node.inputs])
    return node


def _kept_of(node: PhysicalNode, keys: str) -> PhysicalNode:
    """A node whose rows stay in their task."""
    if isinstance(node, Exchange):
        return node
    if isinstance(node, _PASSING):
        node = node.with_inputs([_kept_of(each, keys) for each in node.inputs])
    return _kept(node, f"keep_input_as_is[hash[{keys}]]")


def _forwarded(node: PhysicalNode, keys: str | None) -> PhysicalNode:
    """A node whose rows stay in their task, in their order."""
    if isinstance(node, Exchange):
        return node
    if isinstance(node, _PASSING):
        node = node.with_inputs([_forwarded(each, keys) for each in node.inputs])
    elif node.title == "Sort" and keys is not None:
        (below,) = node.inputs
        if not isinstance(below, Exchange):
            node = node.with_inputs([_kept(below, f"keep_input_as_is[hash[{keys}]]")])
    return _kept(node, "forward")


def _kept(node: PhysicalNode, distribution: str) -> PhysicalNode:
    return Phase(node, node.schema, Exchange.name, (("distribution", distribution),))
