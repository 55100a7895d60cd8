"""Pictures of a graph: its layers, diagrams of boxes and arrows as text, and Flink's execution plan in JSON."""

import unicodedata
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final, Protocol

from headrace.common.masking import without_secrets
from headrace.graph.partitioning import KeySelection, Partitioning
from headrace.graph.stream_graph import Node, StreamGraph


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
class DiagramFrame:
    """Operators that run together, producers before consumers; without a title nothing is drawn around them."""

    title: str | None
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Diagram:
    """A whole job; records go from a frame to later ones only."""

    headline: str
    frames: tuple[DiagramFrame, ...]
    arrows: tuple[Arrow, ...]

    def chained(self, frame: DiagramFrame) -> list[Arrow]:
        """The arrows inside a frame."""
        return [arrow for arrow in self._leaving(frame) if not arrow.is_exchange]

    def exchanges(self, frame: DiagramFrame) -> list[Arrow]:
        """The arrows from a frame to others."""
        return [arrow for arrow in self._leaving(frame) if arrow.is_exchange]

    def _leaving(self, frame: DiagramFrame) -> list[Arrow]:
        inside = {box.id for box in frame.boxes}
        return [arrow for arrow in self.arrows if arrow.source in inside]


def graph_diagram(graph: StreamGraph) -> Diagram:
    """The logical graph: the operators of the program."""
    boxes = tuple(Box(node.id, node.name, node.role, _notes(node)) for node in graph)
    arrows = tuple(
        Arrow(edge.source, node.id, ship_label(edge.partitioning, edge.key, edge.side_output))
        for node in graph
        for edge in node.inputs
    )
    return Diagram(count_of(len(graph), "operator"), (DiagramFrame(None, boxes),), arrows)


def ship_label(partitioning: Partitioning, key: KeySelection | None, side_output: str | None) -> str:
    """Return how records travel: ``HASH(card)``, ``FORWARD``, ``FORWARD, side output late``."""
    label = partitioning.label if key is None else f"{partitioning.label}({key.label})"
    return label if side_output is None else f"{label}, side output {side_output}"


def count_of(number: int, noun: str) -> str:
    """``1 stage``, ``2 stages``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: str) -> str:
    r"""A name on one line, without secrets: what cannot be printed is written as Python would escape it (``\n``)."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in without_secrets(text))


def _notes(node: Node) -> tuple[str, ...]:
    said = {"uid": node.uid, "parallelism": node.parallelism}
    return tuple(f"{what} {value}" for what, value in said.items() if value is not None)


_BELOW: Final = {"": "", "├─ ": "│  ", "└─ ": "   "}
"""The prefix of the lines below a branch."""

_MOST_NOTED: Final = 72
"""The columns of a terminal for what a line tells of an operator."""


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


def _operators(frame: DiagramFrame, chained: Sequence[Arrow]) -> list[str]:
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
    """Return what stands before the operator at the end of a branch; nothing when records just go on."""
    shown = one_line(label).removeprefix("FORWARD").removeprefix(", ")
    return f"{shown} → " if shown else ""


def _notes_of_node(box: Box | None) -> list[str]:
    return [] if box is None else list(map(one_line, box.all_notes))


def _exchanges(diagram: Diagram, index: int) -> list[str]:
    """Return what leaves a frame: how it travels, the operators at its ends, and which frames it passes by."""
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
    """Return how many columns a terminal needs: East Asian wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


_SHAPES: Final = {"Data Source": '(["{}"])', "Operator": '["{}"]', "Data Sink": '[["{}"]]'}
"""The forms of boxes, by role: sources are rounded, sinks have doubled sides."""

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
    text = "<br/>".join(map(escape, map(without_secrets, (box.name, *box.all_notes))))
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


_ORDERINGS: Final = 8
_MOVES: Final = 60
_STRAIGHT: Final = (1.0, 2.0, 8.0)
"""The weight of a straight link of whose ends none, one or both are only passed through."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that takes place in a row.

    Attributes:
        row: which row, from 0 at the top.
        width: how wide it is.
        gap: the least distance to the next item in the row.
        is_passed: whether a line only passes through it: a dummy vertex.
    """

    row: int
    width: float
    gap: float
    is_passed: bool = False


class Layers:
    """The places of items.

    Args:
        items: all of them; those of a row in the order that they keep where nothing speaks against it.
        links: pairs of indices into ``items``, each from a row to the next one below.

    Attributes:
        rows: indices into ``items``, row by row, from left to right.
        centres: the middle of each item; the leftmost edge of all is at 0.
    """

    def __init__(self, items: Sequence[Item], links: Iterable[tuple[int, int]]) -> None:
        self._items = items
        self._above: list[list[int]] = [[] for _ in items]
        self._below: list[list[int]] = [[] for _ in items]
        for upper, lower in links:
            self._above[lower].append(upper)
            self._below[upper].append(lower)
        self.rows: list[list[int]] = [[] for _ in range(1 + max((item.row for item in items), default=-1))]
        for index, item in enumerate(items):
            self.rows[item.row].append(index)
        self._order()
        self.centres = self._packed()
        self._move()
        left = min((x - items[i].width / 2 for i, x in enumerate(self.centres)), default=0.0)
        self.centres = [x - left for x in self.centres]

    def _order(self) -> None:
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for number in range(_ORDERINGS):
            if fewest == 0:
                break
            joined = self._above if number % 2 == 0 else self._below
            place = {index: float(at) for row in self.rows for at, index in enumerate(row)}
            for row in self.rows if number % 2 == 0 else reversed(self.rows):
                wanted = {index: _mean(joined[index], place.__getitem__, place[index]) for index in row}
                row.sort(key=wanted.__getitem__)
                place.update((index, float(at)) for at, index in enumerate(row))
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _crossings(self) -> int:
        """Return how many pairs of links cross."""
        place = {index: at for row in self.rows for at, index in enumerate(row)}
        found = 0
        for row in self.rows:
            passed: list[int] = []
            for index in row:
                ends = sorted(place[lower] for lower in self._below[index])
                found += sum(len(passed) - bisect_right(passed, end) for end in ends)
                for end in ends:
                    insort(passed, end)
        return found

    def _packed(self) -> list[float]:
        """Each row as narrow as it can be, from the left."""
        centres = [0.0] * len(self._items)
        for row in self.rows:
            for index, offset in zip(row, self._offsets(row), strict=True):
                centres[index] = offset
        return centres

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """The least distances of a row's items from its first one."""
        offsets = [0.0] * min(1, len(row))
        for left, right in pairwise(self._items[index] for index in row):
            offsets.append(offsets[-1] + (left.width + right.width) / 2 + max(left.gap, right.gap))
        return offsets

    def _move(self) -> None:
        sides = [self._above, self._below]
        both = [above + below for above, below in zip(self._above, self._below, strict=True)]
        for number in range(_MOVES):
            joined = sides[number % 2] if number < _MOVES // 2 else both
            for row in self.rows if number % 2 == 0 else reversed(self.rows):
                wanted = [self._wanted(index, joined[index]) for index in row]
                for index, x in zip(row, self._nearest(row, wanted), strict=True):
                    self.centres[index] = x

    def _wanted(self, index: int, joined: Sequence[int]) -> tuple[float, float]:
        """Return where an item would best be, and how much that matters."""
        if not joined:
            return self.centres[index], 1.0
        is_passed = self._items[index].is_passed
        weights = [_STRAIGHT[is_passed + self._items[other].is_passed] for other in joined]
        together = sum(weights)
        return sum(self.centres[other] * w for other, w in zip(joined, weights, strict=True)) / together, together

    def _nearest(self, row: Sequence[int], wanted: Sequence[tuple[float, float]]) -> list[float]:
        """The places of a row's items nearest to those that are wanted, by least squares, with none too close."""
        offsets = self._offsets(row)
        blocks: list[tuple[float, float, int]] = []  # of items that touch: their mean, their weight, how many
        for (target, weight), offset in zip(wanted, offsets, strict=True):
            blocks.append((target - offset, weight, 1))
            while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
                right, left = blocks.pop(), blocks.pop()
                together = left[1] + right[1]
                mean = (left[0] * left[1] + right[0] * right[1]) / together
                blocks.append((mean, together, left[2] + right[2]))
        starts = [mean for mean, _, count in blocks for _ in range(count)]
        return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _mean(indices: Sequence[int], place: Callable[[int], float], otherwise: float) -> float:
    return fmean(map(place, indices)) if indices else otherwise


class _Input(Protocol):
    """An edge of the logical graph, or of a plan."""

    @property
    def source(self) -> int: ...
    @property
    def partitioning(self) -> Partitioning: ...
    @property
    def input_index(self) -> int: ...
    @property
    def side_output(self) -> str | None: ...


def graph_document(graph: StreamGraph) -> dict[str, object]:
    """The document of the logical graph."""
    return {"nodes": [node_document(node, node.inputs, node.parallelism, node.uid) for node in graph]}


def node_document(node: Node, inputs: Iterable[_Input], parallelism: int | None, uid: str | None) -> dict[str, object]:
    """Return what the document says of one operator.

    Args:
        node: the operator.
        inputs: what it reads.
        parallelism: how many subtasks it has; None when that is not known yet.
        uid: the user's; None when there is none.
    """
    document: dict[str, object] = {
        "id": node.id,
        "type": node.name,
        "pact": node.role,
        "contents": node.description or node.name,
        "parallelism": parallelism,
        "predecessors": [_predecessor(edge) for edge in inputs],
        "uid": uid,
    }
    return {key: value for key, value in document.items() if key == "parallelism" or value not in (None, [])}


def _predecessor(edge: _Input) -> dict[str, object]:
    document = {
        "id": edge.source,
        "ship_strategy": edge.partitioning.label,
        "side": "first" if edge.input_index == 0 else "second",
    }
    return document if edge.side_output is None else {**document, "side_output": edge.side_output}
