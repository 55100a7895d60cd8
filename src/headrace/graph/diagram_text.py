"""Diagrams as text: trees from the sources down, in boxes where operators run together.

Edges say how records travel unless they just go on to the next operator (``FORWARD``). An operator that several others
feed is drawn below the first of them; the others refer to it.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from headrace.graph.diagram import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.graph.diagram import Arrow, Box, Diagram, Frame

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
        return [f"{line}  ({', '.join(notes)})" if (notes := _notes(box)) else line for line, _, box in tree]
    width = max(_width(line) for line, _, _ in tree)
    lines = []
    for line, below, box in tree:
        first, *others = _filled(_notes(box))
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


def _notes(box: Box | None) -> list[str]:
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
