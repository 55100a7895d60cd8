"""Diagrams as SVG: pictures that need no script, no network and no font of their own.

Colours are attributes, for a light page; a style sheet inside turns them dark where the page is, or where the reader of
a picture that stands alone wants that. The picture has a background of its own, so it can be read on any page.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from headrace.graph.diagram import Arrow, Box, Diagram, Item, Layers, draw_text, one_line

NAME_SIZE: Final = 13.0
NOTE_SIZE: Final = 11.0
NOTE_HEIGHT: Final = 15.0
LABEL_HEIGHT: Final = 18.0
HEADLINE_HEIGHT: Final = 26.0
MARGIN: Final = 14.0

_NAME_HEIGHT: Final = 34.0
_ROW_GAP: Final = 18.0
_BAND_PADDING: Final = 14.0
_COLUMN_GAP: Final = 26.0
_LINE_GAP: Final = 12.0
_PORT_DISTANCE: Final = 22.0
_PASSED_WIDTH: Final = 2.0
_BEND: Final = 6.0
"""A line that would bend by less runs straight."""
_LONGEST: Final = 40
"""Longer texts are cut: a name may be a whole expression."""

_NARROW: Final = frozenset("fijlrtI.,:;'|!()[]{}/\\ -`\"")
_WIDE: Final = frozenset("mwMW@%&—…→")


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the picture: ``x`` to the right, ``y`` down."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box with its place: the middle of its upper edge, and its size."""

    box: Box
    top: Point
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class PlacedArrow:
    """An arrow with its way.

    Attributes:
        arrow: which.
        points: its way from box to box; at the ends and between these in pairs, between which it runs straight down.
        text: what its label says; empty without one.
        label: the middle of the label.
        label_width: how wide the label is.
    """

    arrow: Arrow
    points: tuple[Point, ...]
    text: str
    label: Point
    label_width: float


@dataclass(frozen=True, slots=True)
class Band:
    """The frame around some boxes, over the whole width; its title stands to their left, line by line."""

    title: tuple[str, ...]
    top: float
    bottom: float


class DiagramLayout:
    """A diagram with the places of all its parts: from rows to what stands in them, and how high they are.

    Args:
        diagram: the diagram.

    Attributes:
        width: of the whole.
        height: likewise.
        boxes: its boxes.
        arrows: its arrows.
        bands: the frames around boxes.
    """

    def __init__(self, diagram: Diagram) -> None:
        self._diagram = diagram
        self._depths, self._last_depths = _depths(diagram)
        self._boxes = [box for frame in diagram.frames for box in frame.boxes]
        self._frame_of = {box.id: number for number, frame in enumerate(diagram.frames) for box in frame.boxes}
        self._texts = [_label_text(arrow.label) for arrow in diagram.arrows]
        self._labelled: set[int] = set()
        self._items: list[Item] = [self._box_item(box) for box in self._boxes]
        index_of = {box.id: index for index, box in enumerate(self._boxes)}
        ends = [(index_of[arrow.source], index_of[arrow.target]) for arrow in diagram.arrows]
        self._ways = [[start, *self._passed(n), end] for n, (start, end) in enumerate(ends)]
        layers = Layers(self._items, [link for way in self._ways for link in pairwise(way)])
        self._titles = [() if frame.title is None else tuple(frame.title.split(", ")) for frame in diagram.frames]
        titles = max((text_width(line, NOTE_SIZE) for title in self._titles for line in title), default=-_BAND_PADDING)
        self._left = MARGIN + 2 * _BAND_PADDING + titles
        self._x = [self._left + centre for centre in layers.centres]
        self._leaves = self._ports(0, 1)
        self._enters = self._ports(-1, -2)
        self._place()

    def _box_item(self, box: Box) -> Item:
        notes = max((text_width(shortened(note), NOTE_SIZE) for note in box.notes), default=0.0)
        width = max(1.08 * text_width(shortened(box.name), NAME_SIZE), notes, 84.0) + 24  # names are bold
        return Item(2 * self._depths[box.id], width, _COLUMN_GAP)

    def _passed(self, number: int) -> list[int]:
        """New items for an arrow in all rows between its ends: its label, and where it passes through."""
        arrow, text = self._diagram.arrows[number], self._texts[number]
        source, target = 2 * self._depths[arrow.source], 2 * self._depths[arrow.target]
        label_row = 1 + (2 * self._last_depths[self._frame_of[arrow.source]] if arrow.is_exchange else source)
        first = len(self._items)
        for row in range(source + 1, target):
            is_label = bool(text) and row == label_row
            width = text_width(text, NOTE_SIZE) + 16 if is_label else _PASSED_WIDTH
            if is_label:
                self._labelled.add(row)
            self._items.append(Item(row, width, _LINE_GAP, is_passed=True))
        return [*range(first, len(self._items))]

    def _ports(self, end: int, beside: int) -> dict[int, float]:
        """Return where arrows leave or enter their boxes, side by side, by number.

        Args:
            end: which part of an arrow's way the box is.
            beside: which part is next to it.
        """
        at: dict[int, list[int]] = defaultdict(list)
        for number, way in enumerate(self._ways):
            at[way[end]].append(number)
        places: dict[int, float] = {}
        for box, numbers in at.items():
            numbers.sort(key=lambda number: self._x[self._ways[number][beside]])
            distance = min(_PORT_DISTANCE, (self._items[box].width - 30) / len(numbers))
            middle = (len(numbers) - 1) / 2
            places.update((number, self._x[box] + (n - middle) * distance) for n, number in enumerate(numbers))
        return places

    def _place(self) -> None:
        tops, heights, self.bands, self.height = self._rows()
        self.arrows = [self._line(number, tops, heights) for number in range(len(self._ways))]
        self.boxes = [
            PlacedBox(box, Point(self._x[i], tops[item.row]), item.width, _box_height(box))
            for i, (box, item) in enumerate(zip(self._boxes, self._items, strict=False))
        ]
        rights = [x + item.width / 2 for x, item in zip(self._x, self._items, strict=True)]
        headline = MARGIN + text_width(one_line(self._diagram.headline), NAME_SIZE)
        self.width = max([*rights, headline]) + MARGIN + _BAND_PADDING

    def _rows(self) -> tuple[list[float], list[float], list[Band], float]:
        """Upper edges and heights of all rows, the bands around them, and the height of all."""
        box_heights: dict[int, float] = defaultdict(float)
        for box in self._boxes:
            depth = self._depths[box.id]
            box_heights[depth] = max(box_heights[depth], _box_height(box))
        tops, heights, bands = [], [], []
        depth = 0
        y = bottom = MARGIN + HEADLINE_HEIGHT
        for title, last in zip(self._titles, self._last_depths, strict=True):
            band_top, padding = y, _BAND_PADDING if title else 0.0
            y += padding
            while depth <= last:
                bottom = y + box_heights[depth] + (padding if depth == last else 0.0)
                label_height = LABEL_HEIGHT if 2 * depth + 1 in self._labelled else 0.0
                tops += [y, bottom + _ROW_GAP]
                heights += [box_heights[depth], label_height]
                y = bottom + 2 * _ROW_GAP + label_height
                depth += 1
            if title:
                bands.append(Band(title, band_top, bottom))
        return tops, heights, bands, bottom + MARGIN

    def _line(self, number: int, tops: Sequence[float], heights: Sequence[float]) -> PlacedArrow:
        arrow, way, text = self._diagram.arrows[number], self._ways[number], self._texts[number]
        first, last = self._items[way[0]], self._items[way[-1]]
        points = [Point(self._leaves[number], tops[first.row] + _box_height(self._boxes[way[0]]))]
        label, label_width = Point(0.0, 0.0), 0.0
        for index in way[1:-1]:
            item = self._items[index]
            top, x = tops[item.row], self._x[index]
            if heights[item.row] == 0:
                continue  # nothing is there to be passed
            points += [Point(x, top), Point(x, top + heights[item.row])]
            if item.width > _PASSED_WIDTH:
                label, label_width = Point(x, top + heights[item.row] / 2), item.width
        points.append(Point(self._enters[number], tops[last.row]))
        return PlacedArrow(arrow, tuple(_straightened(points)), text, label, label_width)


def _depths(diagram: Diagram) -> tuple[dict[int, int], list[int]]:
    """Return how deep each box stands, and how deep the last ones of each frame do."""
    depths: dict[int, int] = {}
    lasts = []
    first = 0
    for frame in diagram.frames:
        chained = diagram.chained(frame)
        before: dict[int, list[int]] = defaultdict(list)
        after: dict[int, list[int]] = defaultdict(list)
        for arrow in chained:
            before[arrow.target].append(arrow.source)
            after[arrow.source].append(arrow.target)
        for box in frame.boxes:
            depths[box.id] = max((depths[source] + 1 for source in before[box.id]), default=first)
        for box in reversed(frame.boxes):  # what begins here stands right above what reads from it
            if not before[box.id] and after[box.id]:
                depths[box.id] = min(depths[target] for target in after[box.id]) - 1
        lasts.append(max((depths[box.id] for box in frame.boxes), default=first))
        first = lasts[-1] + 1
    return depths, lasts


def _straightened(points: Sequence[Point]) -> list[Point]:
    found = list(points[:1])
    for point in points[1:]:
        found.append(Point(found[-1].x, point.y) if abs(point.x - found[-1].x) < _BEND else point)
    return found


def _box_height(box: Box) -> float:
    return _NAME_HEIGHT + NOTE_HEIGHT * len(box.notes)


def _label_text(label: str) -> str:
    """Return what an arrow says; nothing when records just go on."""
    return shortened(label.removeprefix("FORWARD").removeprefix(", "))


def shortened(text: str) -> str:
    """A text on one line, cut where it is long."""
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def text_width(text: str, size: float) -> float:
    """Return how wide a text is in the widest of the usual fonts without serifs."""
    return size * sum(map(_char_width, text))


def _char_width(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if char in _NARROW:
        return 0.38
    return 0.96 if char in _WIDE else 0.7 if char.isupper() else 0.62


_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
_HEAD: Final = 7.0
"""The length of the point of an arrow."""


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


def draw_svg(
    diagram: Diagram,
    marked: Collection[int] = (),
    *,
    standalone: bool = True,
    has_style: bool = True,
    classes: Mapping[int, str] = MappingProxyType({}),
    inside: Callable[[PlacedBox], Iterable[str]] = lambda _: (),
) -> str:
    """The diagram as an ``<svg>`` element.

    Args:
        diagram: what to draw.
        marked: ids of boxes that stand out.
        standalone: whether the picture is a document of its own; inside a page it is as light or dark as the page.
        has_style: whether a style sheet is in it; else that of the page around it has to say what is dark.
        classes: by id of a box, what else its shape is called for the style sheet of a page.
        inside: draws what a box has in it besides.
    """
    layout = DiagramLayout(diagram)
    size = f'width="{drawn_number(layout.width)}" height="{drawn_number(layout.height)}"'
    box = f'viewBox="0 0 {drawn_number(layout.width)} {drawn_number(layout.height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {box} font-family="{_FONT}">',
        f"<title>{_escaped(diagram.headline)}</title>",
        f"<desc>{escape(draw_text(diagram))}</desc>",
        *([f"<style>{_style(standalone=standalone)}</style>"] if has_style else []),
        *_page(diagram, layout),
        *(part for band in layout.bands for part in _band(band, layout.width)),
        *(part for arrow in layout.arrows for part in _arrow(arrow)),
        *(part for arrow in layout.arrows if arrow.text for part in _label(arrow)),
        *(
            part
            for box in layout.boxes
            for part in _box(box, classes.get(box.box.id, ""), inside(box), is_marked=box.box.id in marked)
        ),
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


def _page(diagram: Diagram, layout: DiagramLayout) -> Iterator[str]:
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


def _box(placed: PlacedBox, more: str, inside: Iterable[str], *, is_marked: bool) -> Iterator[str]:
    box, kind = placed.box, _KINDS[placed.box.role]
    left, top = placed.top.x - placed.width / 2, placed.top.y
    yield f"<g><title>{_tooltip(box)}</title>"
    radius = 17.0 if kind == "source" else 6.0
    line, named = 3.0 if is_marked else 1.4, f"{kind} {more}".rstrip()
    yield _rectangle(named, left, top, placed.width, placed.height, radius=radius, line=line)
    if kind == "sink":
        for x in (left + 5, left + placed.width - 5):
            ends = f"M{_at(x, top)} L{_at(x, top + placed.height)}"
            yield f'<path class="headrace-{kind}" {_colours(kind)} stroke-width="1.4" d="{ends}"/>'
    weight = "700" if is_marked else "600"
    yield _text("text", placed.top.x, top + 17, shortened(box.name), NAME_SIZE, weight=weight)
    for number, note in enumerate(box.notes):
        yield _text("note", placed.top.x, top + 35 + number * NOTE_HEIGHT, shortened(note), NOTE_SIZE)
    yield from inside
    yield "</g>"


def _tooltip(box: Box) -> str:
    return "\n".join(map(_escaped, [f"[{box.id}] {box.name}", *box.all_notes]))


def _rectangle(kind: str, x: float, y: float, width: float, height: float, *, radius: float, line: float = 1.0) -> str:
    """A rectangle; words behind the first one of its kind are for the style sheet of a page."""
    place = f'x="{drawn_number(x)}" y="{drawn_number(y)}" width="{drawn_number(width)}" height="{drawn_number(height)}"'
    shape = f'rx="{drawn_number(radius)}" stroke-width="{line}"'
    return f'<rect class="headrace-{kind}" {_colours(kind.split(maxsplit=1)[0])} {place} {shape}/>'


def _text(kind: str, x: float, y: float, text: str, size: float, *, anchor: str = "middle", weight: str = "400") -> str:
    """Text around a height: its baseline is placed by hand, since few programs know ``dominant-baseline``."""
    place = f'x="{drawn_number(x)}" y="{drawn_number(y + size * 0.36)}" text-anchor="{anchor}"'
    font = f'font-size="{drawn_number(size)}" font-weight="{weight}"'
    return f'<text class="headrace-{kind}" {_colours(kind)} {place} {font}>{_escaped(text)}</text>'


def _colours(kind: str) -> str:
    paint = _PAINTS[kind]
    return f'fill="{paint.fill}" stroke="{paint.stroke}"'


def _escaped(text: str) -> str:
    """Text of the user's as an element holds it."""
    return escape(one_line(text))


def _at(x: float, y: float) -> str:
    return f"{drawn_number(x)} {drawn_number(y)}"


def drawn_number(value: float) -> str:
    """With a tenth, and without what says nothing."""
    return f"{value:.1f}".removesuffix(".0")
