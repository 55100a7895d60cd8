"""Diagrams as SVG: pictures that need no script, no network and no font of their own.

Colours are attributes, for a light page; a style sheet inside turns them dark where the page is, or where the reader of
a picture that stands alone wants that. The picture has a background of its own, so it can be read on any page.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.graph.diagram import one_line
from headrace.graph.diagram_layout import (
    HEADLINE_HEIGHT,
    LABEL_HEIGHT,
    MARGIN,
    NAME_SIZE,
    NOTE_HEIGHT,
    NOTE_SIZE,
    laid_out,
    shortened,
)
from headrace.graph.diagram_text import draw_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from headrace.graph.diagram import Box, Diagram
    from headrace.graph.diagram_layout import Band, Layout, PlacedArrow, PlacedBox, Point

_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
_HEAD: Final = 7.0
"""How long the point of an arrow is."""


class _Paint(NamedTuple):
    """The colours of one kind of part, on a light and on a dark page."""

    fill: str
    stroke: str
    dark_fill: str
    dark_stroke: str


_PAINTS: Final = {
    "page": _Paint("#ffffff", "#d8dee4", "#16191d", "#363c44"),
    "band": _Paint("#f5f7f9", "#d8dee4", "#1e2227", "#363c44"),
    "source": _Paint("#e3f4ea", "#2b8a57", "#17372a", "#4fbf85"),
    "operator": _Paint("#e8effb", "#4571b8", "#1c2d47", "#7ba4e8"),
    "sink": _Paint("#fbefdf", "#b8752a", "#402d16", "#e0a458"),
    "line": _Paint("none", "#7d8794", "none", "#8b95a3"),
    "exchange": _Paint("none", "#8250b8", "none", "#b891ec"),
    "head": _Paint("#7d8794", "none", "#8b95a3", "none"),
    "exchange-head": _Paint("#8250b8", "none", "#b891ec", "none"),
    "label": _Paint("#ffffff", "#c6cdd5", "#16191d", "#4a525c"),
    "text": _Paint("#1f2328", "none", "#e8ebef", "none"),
    "note": _Paint("#57606a", "none", "#a9b2bd", "none"),
}
_KINDS: Final = {"Data Source": "source", "Operator": "operator", "Data Sink": "sink"}

_DARK_PAGES: Final = (
    'body[data-jp-theme-light="false"]',  # JupyterLab, Notebook 7
    "body.vscode-dark",
    "html[theme=dark]",  # Colab
    "[data-theme=dark]",  # Sphinx
    "[data-md-color-scheme=slate]",  # MkDocs
)


def draw_svg(diagram: Diagram, marked: Collection[int] = (), *, standalone: bool = True) -> str:
    """The diagram as an ``<svg>`` element.

    Args:
        diagram: what to draw.
        marked: ids of boxes that stand out.
        standalone: whether the picture is a document of its own; inside a page it is as light or dark as the page.
    """
    layout = laid_out(diagram)
    size = f'width="{_number(layout.width)}" height="{_number(layout.height)}"'
    box = f'viewBox="0 0 {_number(layout.width)} {_number(layout.height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {box} font-family="{_FONT}">',
        f"<title>{_escaped(diagram.headline)}</title>",
        f"<desc>{escape(draw_text(diagram))}</desc>",
        f"<style>{_style(standalone=standalone)}</style>",
        *_page(diagram, layout),
        *(part for band in layout.bands for part in _band(band, layout.width)),
        *(part for arrow in layout.arrows for part in _arrow(arrow)),
        *(part for arrow in layout.arrows if arrow.text for part in _label(arrow)),
        *(part for box in layout.boxes for part in _box(box, is_marked=box.box.id in marked)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style(*, standalone: bool) -> str:
    pages = "" if standalone else f":is({','.join(_DARK_PAGES)}) "
    rules = "".join(
        f"{pages}.headrace-{kind}{{fill:{paint.dark_fill};stroke:{paint.dark_stroke}}}"
        for kind, paint in _PAINTS.items()
    )
    return f"@media (prefers-color-scheme:dark){{{rules}}}" if standalone else rules


def _page(diagram: Diagram, layout: Layout) -> Iterator[str]:
    yield _rectangle("page", 0.5, 0.5, layout.width - 1, layout.height - 1, radius=8)
    yield _text("text", MARGIN, HEADLINE_HEIGHT / 2 + 8, diagram.headline, NAME_SIZE, anchor="start")


def _band(band: Band, width: float) -> Iterator[str]:
    yield _rectangle("band", MARGIN, band.top, width - 2 * MARGIN, band.bottom - band.top, radius=6)
    for number, line in enumerate(band.title):
        kind, top = "note" if number else "text", band.top + 24 + number * NOTE_HEIGHT
        yield _text(kind, MARGIN + 12, top, line, NOTE_SIZE, anchor="start", weight="400" if number else "600")


def _arrow(placed: PlacedArrow) -> Iterator[str]:
    is_exchange = placed.arrow.is_exchange
    kind, width = ("exchange", 2.2) if is_exchange else ("line", 1.6)
    end = placed.points[-1]
    yield f'<path class="headrace-{kind}" {_colours(kind)} stroke-width="{width}" d="{_curve(placed.points)}"/>'
    point = f"M{_at(end.x, end.y)} L{_at(end.x - 4.5, end.y - _HEAD - 1)} L{_at(end.x + 4.5, end.y - _HEAD - 1)} Z"
    head = "exchange-head" if is_exchange else "head"
    yield f'<path class="headrace-{head}" {_colours(head)} d="{point}"/>'


def _curve(points: Sequence[Point]) -> str:
    """A line that leaves and enters everything straight down."""
    last = len(points) - 1
    parts = [f"M{_at(points[0].x, points[0].y)}"]
    for number, (start, end) in enumerate(pairwise(points)):
        bottom = end.y - (_HEAD if number == last - 1 else 0.0)
        middle = (start.y + bottom) / 2
        if start.x == end.x:
            parts.append(f"L{_at(end.x, bottom)}")
        else:
            parts.append(f"C{_at(start.x, middle)} {_at(end.x, middle)} {_at(end.x, bottom)}")
    return " ".join(parts)


def _label(placed: PlacedArrow) -> Iterator[str]:
    width, at = placed.label_width, placed.label
    yield _rectangle("label", at.x - width / 2, at.y - LABEL_HEIGHT / 2, width, LABEL_HEIGHT, radius=LABEL_HEIGHT / 2)
    yield _text("note", at.x, at.y, placed.text, NOTE_SIZE)


def _box(placed: PlacedBox, *, is_marked: bool) -> Iterator[str]:
    box, kind = placed.box, _KINDS[placed.box.role]
    left, top = placed.top.x - placed.width / 2, placed.top.y
    yield f"<g><title>{_tooltip(box)}</title>"
    radius = 17.0 if kind == "source" else 6.0
    yield _rectangle(kind, left, top, placed.width, placed.height, radius=radius, line=3.0 if is_marked else 1.4)
    if kind == "sink":
        for x in (left + 5, left + placed.width - 5):
            ends = f"M{_at(x, top)} L{_at(x, top + placed.height)}"
            yield f'<path class="headrace-{kind}" {_colours(kind)} stroke-width="1.4" d="{ends}"/>'
    weight = "700" if is_marked else "600"
    yield _text("text", placed.top.x, top + 17, shortened(box.name), NAME_SIZE, weight=weight)
    for number, note in enumerate(box.notes):
        yield _text("note", placed.top.x, top + 35 + number * NOTE_HEIGHT, shortened(note), NOTE_SIZE)
    yield "</g>"


def _tooltip(box: Box) -> str:
    return "\n".join(map(_escaped, [f"[{box.id}] {box.name}", *box.all_notes]))


def _rectangle(kind: str, x: float, y: float, width: float, height: float, *, radius: float, line: float = 1.0) -> str:
    place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    shape = f'rx="{_number(radius)}" stroke-width="{line}"'
    return f'<rect class="headrace-{kind}" {_colours(kind)} {place} {shape}/>'


def _text(kind: str, x: float, y: float, text: str, size: float, *, anchor: str = "middle", weight: str = "400") -> str:
    """Text around a height: its baseline is placed by hand, since few programs know ``dominant-baseline``."""
    place = f'x="{_number(x)}" y="{_number(y + size * 0.36)}" text-anchor="{anchor}"'
    font = f'font-size="{_number(size)}" font-weight="{weight}"'
    return f'<text class="headrace-{kind}" {_colours(kind)} {place} {font}>{_escaped(text)}</text>'


def _colours(kind: str) -> str:
    paint = _PAINTS[kind]
    return f'fill="{paint.fill}" stroke="{paint.stroke}"'


def _escaped(text: str) -> str:
    """Text of the user's as an element holds it."""
    return escape(one_line(text))


def _at(x: float, y: float) -> str:
    return f"{_number(x)} {_number(y)}"


def _number(value: float) -> str:
    """With a tenth, and without what says nothing."""
    return f"{value:.1f}".removesuffix(".0")
