"""A job as it is shown: boxes, arrows between them, and frames around boxes that run together.

The logical graph and the physical plan become diagrams, and every form in which a job is drawn is made from one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.graph.keys import KeySelection
    from headrace.graph.nodes import Node
    from headrace.graph.partitioning import Partitioning
    from headrace.graph.stream_graph import StreamGraph


@dataclass(frozen=True, slots=True)
class Box:
    """An operator.

    Attributes:
        id: its number.
        name: its name.
        role: ``Data Source``, ``Operator`` or ``Data Sink``.
        notes: what else there is to say, each a few words.
        asides: more of it, which pictures leave to tooltips.
    """

    id: int
    name: str
    role: str
    notes: tuple[str, ...] = ()
    asides: tuple[str, ...] = ()

    @property
    def all_notes(self) -> tuple[str, ...]:
        """All that there is to say."""
        return (*self.asides, *self.notes)


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
    boxes = tuple(Box(node.id, node.name, node.role, _notes(node)) for node in graph)
    arrows = tuple(
        Arrow(edge.source, node.id, ship_label(edge.partitioning, edge.key, edge.side_output))
        for node in graph
        for edge in node.inputs
    )
    return Diagram(count_of(len(graph), "operator"), (Frame(None, boxes),), arrows)


def ship_label(partitioning: Partitioning, key: KeySelection | None, side_output: str | None) -> str:
    """How records travel: ``HASH(card)``, ``FORWARD``, ``FORWARD, side output late``."""
    label = partitioning.label if key is None else f"{partitioning.label}({key.label})"
    return label if side_output is None else f"{label}, side output {side_output}"


def count_of(number: int, noun: str) -> str:
    """``1 stage``, ``2 stages``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: str) -> str:
    r"""A name on one line: what cannot be printed is written as Python would escape it (``\n``)."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _notes(node: Node) -> tuple[str, ...]:
    said = {"uid": node.uid, "parallelism": node.parallelism}
    return tuple(f"{what} {value}" for what, value in said.items() if value is not None)
