"""Operators of several inputs, into which execution plans of batch mode put a join and what stands below it.

Flink computes nodes without an exchange between them in one operator, which reads its inputs in an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from headrace.table.logical.schema import Schema
from headrace.table.physical.basic import Exchange
from headrace.table.physical.explain import node_line, tree_text
from headrace.table.physical.joins import HashJoin, SortMergeJoin
from headrace.table.physical.node import PhysicalNode, ScalarText, Terms


@dataclass(frozen=True)
class MultipleInput(PhysicalNode):
    """Nodes that are one operator, which is only shown.

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
    """An exchange whose rows are read when all of them are there, which is only shown."""

    def terms(self, text: ScalarText) -> Terms:
        yield from super().terms(text)
        yield "shuffle_mode", "BATCH"


def with_multiple_inputs(node: PhysicalNode, text: ScalarText) -> PhysicalNode:
    """A plan in which joins stand together with the nodes below them that have no exchange in between."""
    if isinstance(node, HashJoin):
        node = _without_deadlock(node)
        if any(map(_is_member, node.inputs)):
            return _as_one(node, text)
    return node.with_inputs([with_multiple_inputs(each, text) for each in node.inputs])


def _without_deadlock(join: HashJoin) -> HashJoin:
    """A join whose inputs do not wait for each other where both read the same rows."""
    probe = 1 if join.builds_left else 0
    read = set(_read(join.inputs[1 - probe]))
    if not any(node in read for node in _at_once(join.inputs[probe])):
        return join
    source, inputs = join.inputs[probe], list(join.inputs)
    inputs[probe] = StoredExchange(source, None)
    if isinstance(source, Exchange):
        inputs[probe] = StoredExchange(source.input, source.keys)
    made = join.with_inputs(inputs)
    assert isinstance(made, HashJoin)
    return made


def _read(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """The nodes that are read for the build side of a join, but for those of other build sides."""
    yield node
    below = (node.inputs[1 if node.builds_left else 0],) if isinstance(node, HashJoin) else node.inputs
    for each in below:
        yield from _read(each)


def _at_once(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """The nodes whose rows come to a node without being stored."""
    if node.title not in _STORING:
        yield node
        for each in node.inputs:
            yield from _at_once(each)


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
            return f"[#{numbers[id(node)] + 1}] {node_line(node.executed(), text, with_mode=False)}"
        return node_line(node if isinstance(node, HashJoin) else node.executed(), text, with_mode=False)

    def inputs(node: PhysicalNode) -> tuple[PhysicalNode, ...]:
        return () if id(node) in numbers else node.inputs

    top: PhysicalNode = root
    shown = tree_text(top, line, inputs).replace("\n", "\\n")
    order = _Order(numbers)
    order.follow(root)
    sources = tuple(with_multiple_inputs(each, text) for each in leaves)
    return MultipleInput(sources, root.schema, order.levels(len(leaves)), f"\\n{shown}\\n")


class _Order:
    """Which inputs are read before which others.

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
