"""A job as it is shown: boxes, arrows between them, and frames around boxes that run together.

The logical graph and the physical plan become diagrams, and every form in which a job is drawn is made from one.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


_BELOW: Final = {"": "", "├─ ": "│  ", "└─ ": "   "}
"""What stands in the lines below a branch."""

_MOST_NOTED: Final = 72
"""So many columns of a terminal have what is told of an operator in a line."""


def draw_text(diagram: Diagram) -> str:
    """The diagram, as a rule one line for each operator."""
    lines = [one_line(diagram.headline), ""]
    contents = [_operators(frame, diagram.chained(frame)) for frame in diagram.frames]
    titles = [frame.title or "" for frame in diagram.frames]
    width = max(map(_width, [*titles, *(line for content in contents for line in content)]))
    for index, (frame, content) in enumerate(zip(diagram.frames, contents, strict=True)):
        lines += content if frame.title is None else _framed(frame.title, content, width)
        lines += _exchanges(diagram, index)
    return "\n".join(lines) + "\n"


def _operators(frame: Frame, chained: Sequence[Arrow]) -> list[str]:
    """An operator is a line: where it stands in the tree, and what else there is to say, in a column inside a frame.

    Where that is much it goes on in lines of its own, beside the branches that lead further down.
    """
    tree = list(_tree(frame.boxes, chained))
    if frame.title is None:
        return [f"{line}  ({', '.join(notes)})" if (notes := _notes_of_node(box)) else line for line, _, box in tree]
    width = max(_width(line) for line, _, _ in tree)
    lines = []
    for line, below, box in tree:
        first, *others = _filled(_notes_of_node(box))
        lines.append(f"{_padded(line, width)}  {first}" if box else line)
        lines += [f"{_padded(below, width)}  {other}" for other in others]
    return lines


def _filled(notes: Sequence[str]) -> list[str]:
    """Notes in lines that are not much too long; at least one line."""
    lines = [""]
    for note in notes:
        if lines[-1] and _width(f"{lines[-1]}, {note}") > _MOST_NOTED:
            lines[-1] += ","
            lines.append(note)
        else:
            lines[-1] += f", {note}" if lines[-1] else note
    return lines


def _tree(boxes: Sequence[Box], chained: Sequence[Arrow]) -> Iterator[tuple[str, str, Box | None]]:
    """The lines of trees whose branches may grow together, what may stand below each, and its box.

    None when the box was drawn above.
    """
    by_id = {box.id: box for box in boxes}
    following: dict[int, list[tuple[str, Box]]] = {}
    for arrow in chained:
        following.setdefault(arrow.source, []).append((_branch_text(arrow.label), by_id[arrow.target]))
    targets = {arrow.target for arrow in chained}
    drawn: set[int] = set()
    # A stack and not recursion: generated programs can be deeper than Python's
    stack = [("", "", "", box) for box in reversed(boxes) if box.id not in targets]
    while stack:
        indent, branch, label, box = stack.pop()
        line, below = f"{indent}{branch}{label}[{box.id}] {one_line(box.name)}", indent + _BELOW[branch]
        if box.id in drawn:
            yield f"{line} (see above)", below, None
            continue
        drawn.add(box.id)
        children = following.get(box.id, ())
        yield line, f"{below}│" if children else below, box
        arms = [*["├─ "] * (len(children) - 1), "└─ "]
        stack += [(below, arm, *child) for arm, child in zip(arms, children, strict=False)][::-1]


def _branch_text(label: str) -> str:
    """What stands before the operator at the end of a branch; nothing when records just go on."""
    shown = one_line(label).removeprefix("FORWARD").removeprefix(", ")
    return f"{shown} → " if shown else ""


def _notes_of_node(box: Box | None) -> list[str]:
    return [] if box is None else list(map(one_line, box.all_notes))


def _exchanges(diagram: Diagram, index: int) -> list[str]:
    """What leaves a frame: how it travels, the operators at its ends, and which frames it passes by."""
    arrows = diagram.exchanges(diagram.frames[index])
    if not arrows:
        return []
    labels = [one_line(arrow.label) for arrow in arrows]
    width = max(map(_width, labels))
    frame_of = {box.id: number for number, frame in enumerate(diagram.frames) for box in frame.boxes}
    lines = [
        f"   │ {_padded(label, width)}  [{arrow.source}] → [{arrow.target}]{_passed(index, frame_of[arrow.target])}"
        for label, arrow in zip(labels, arrows, strict=True)
    ]
    return [*lines, "   ▼"]


def _passed(source: int, target: int) -> str:
    passed = range(source + 1, target)
    return f" (passes through stage {', '.join(map(str, passed))})" if passed else ""


def _framed(title: str, content: Sequence[str], width: int) -> list[str]:
    top = f"┌─ {title} {'─' * (width - _width(title) - 1)}┐"
    return [top, *(f"│ {_padded(line, width)} │" for line in content), f"└{'─' * (width + 2)}┘"]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """How many columns a terminal needs: East Asian wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


_SHAPES: Final = {"Data Source": '(["{}"])', "Operator": '["{}"]', "Data Sink": '[["{}"]]'}
"""How boxes are written, by role: sources are rounded, sinks have doubled sides."""

_HARMLESS: Final = frozenset(" -,:/()=·")
"""Beside letters and digits: what has no meaning to Mermaid, nor to the Markdown and HTML inside its labels."""


def draw_mermaid(diagram: Diagram) -> str:
    """The diagram as the text of a flowchart: a subgraph for each frame, thick arrows for exchanges."""
    lines = [*_frames(diagram), *(_arrow(arrow) for arrow in diagram.arrows if arrow.is_exchange)]
    return "\n".join(["flowchart TB", *(f"    {line}" for line in lines)]) + "\n"


def _frames(diagram: Diagram) -> Iterator[str]:
    for index, frame in enumerate(diagram.frames):
        inside = [*map(_box, frame.boxes), *map(_arrow, diagram.chained(frame))]
        if frame.title is None:
            yield from inside
        else:
            yield f'subgraph stage{index}["{escape(frame.title)}"]'
            yield from (f"    {line}" for line in inside)
            yield "end"


def _box(box: Box) -> str:
    text = "<br/>".join(map(escape, (box.name, *box.all_notes)))
    return f"op{box.id}{_SHAPES[box.role].format(text)}"


def _arrow(arrow: Arrow) -> str:
    line = "==>" if arrow.is_exchange else "-->"
    return f'op{arrow.source} {line}|"{escape(arrow.label)}"| op{arrow.target}'


def escape(text: str) -> str:
    """Text for a quoted label: nothing in it means anything to Mermaid, a newline is a line break."""
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char == "\n":
        return "<br/>"
    if not char.isprintable():
        return " "
    # Other alphabets and emoji are as harmless as letters; numeric entities are written with '#' instead of '&#'
    return char if char.isalnum() or char in _HARMLESS or ord(char) > 0xFF else f"#{ord(char)};"
