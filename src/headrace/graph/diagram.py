"""A job as it is shown: boxes, arrows between them, and frames around boxes that run together.

The logical graph and the physical plan become diagrams, and every form in which a job is drawn is made from one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.graph.labels import count_of, role_of, ship_label

if TYPE_CHECKING:
    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph


@dataclass(frozen=True, slots=True)
class Box:
    """An operator.

    Attributes:
        id: its number.
        name: its name.
        role: ``Data Source``, ``Operator`` or ``Data Sink``.
        notes: what else there is to say, each a few words.
    """

    id: int
    name: str
    role: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrow:
    """Records on their way.

    Attributes:
        source: number of the operator that makes them.
        target: number of the one that gets them.
        label: how they travel.
        is_exchange: whether they leave their frame.
    """

    source: int
    target: int
    label: str
    is_exchange: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Operators that run together, producers before consumers; without a title nothing is drawn around them."""

    title: str | None
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Diagram:
    """A whole job; records go from a frame to later ones only."""

    headline: str
    frames: tuple[Frame, ...]
    arrows: tuple[Arrow, ...]

    def chained(self, frame: Frame) -> list[Arrow]:
        """The arrows inside a frame."""
        return [arrow for arrow in self._leaving(frame) if not arrow.is_exchange]

    def exchanges(self, frame: Frame) -> list[Arrow]:
        """The arrows from a frame to others."""
        return [arrow for arrow in self._leaving(frame) if arrow.is_exchange]

    def _leaving(self, frame: Frame) -> list[Arrow]:
        inside = {box.id for box in frame.boxes}
        return [arrow for arrow in self.arrows if arrow.source in inside]


def graph_diagram(graph: StreamGraph) -> Diagram:
    """The logical graph: what the program asked for."""
    boxes = tuple(Box(node.id, node.name, role_of(node), _notes(node)) for node in graph)
    arrows = tuple(
        Arrow(edge.source, node.id, ship_label(edge.partitioning, edge.key, edge.side_output))
        for node in graph
        for edge in node.inputs
    )
    return Diagram(count_of(len(graph), "operator"), (Frame(None, boxes),), arrows)


def _notes(node: Node) -> tuple[str, ...]:
    said = {"uid": node.uid, "parallelism": node.parallelism}
    return tuple(f"{what} {value}" for what, value in said.items() if value is not None)
