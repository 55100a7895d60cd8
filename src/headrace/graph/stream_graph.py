"""The graph of one job while the program builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from headrace.common.call_site import caller
from headrace.graph.nodes import Edge, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.specs import OperatorSpec

Rule = Callable[[Node, "Iterator[int]"], "Iterable[Node]"]
"""Makes nodes of a node: itself, changed or not, and others before or behind it, producers first.

It also gets ids that no node has. Those that read from the node go on reading from the one that keeps its id.
"""


class StreamGraph:
    """Nodes by id, in the order in which they were asked for; a node's inputs always come before it."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> StreamGraph:
        """A graph of these nodes; the inputs of each must come before it."""
        graph = cls()
        graph._nodes = {node.id: node for node in nodes}
        return graph

    def add(
        self,
        spec: OperatorSpec,
        name: str,
        inputs: tuple[Edge, ...] = (),
        output_type: TypeInformation | None = None,
        side_types: tuple[tuple[str, TypeInformation], ...] = (),
        parallelism: int | None = None,
    ) -> Node:
        """Add an operator, and remember the line of the user's program that asked for it."""
        node = Node(
            id=max(self._nodes, default=-1) + 1,
            spec=spec,
            name=name,
            inputs=inputs,
            output_type=output_type,
            side_types=side_types,
            parallelism=parallelism,
            call_site=caller(),
        )
        self._nodes[node.id] = node
        return node

    def update(self, node_id: int, **changes: Any) -> Node:
        """Replace attributes of a node (its name, its uid, …)."""
        self._nodes[node_id] = replace(self._nodes[node_id], **changes)
        return self._nodes[node_id]

    def __getitem__(self, node_id: int) -> Node:
        return self._nodes[node_id]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def consumers(self, node_id: int) -> list[tuple[Node, Edge]]:
        """The nodes that read from a node, each with the edge it reads through."""
        return [(node, edge) for node in self for edge in node.inputs if edge.source == node_id]

    def record_type(self, edge: Edge) -> TypeInformation:
        """The type of the records on an edge, as the node declares it that makes them."""
        return self._nodes[edge.source].type_of(edge.side_output)

    def transform(self, rule: Rule) -> StreamGraph:
        """The graph in which each node is replaced by what a rule makes of it."""
        free = count(max(self._nodes, default=-1) + 1)
        return StreamGraph.of(made for node in self for made in rule(node, free))

    def subgraph(self, node_ids: set[int]) -> StreamGraph:
        """The part of the graph that ``node_ids`` need: themselves and all that comes before them."""
        needed: set[int] = set()
        stack = list(node_ids)
        while stack:
            node_id = stack.pop()
            if node_id not in needed:
                needed.add(node_id)
                stack.extend(edge.source for edge in self._nodes[node_id].inputs)
        return StreamGraph.of(node for node in self if node.id in needed)
