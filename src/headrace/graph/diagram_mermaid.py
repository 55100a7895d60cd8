"""Diagrams as Mermaid flowcharts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.graph.diagram import Arrow, Box, Diagram

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
