"""Where the parts of a diagram stand when it is drawn: from the sources at the top down, in bands of one frame each.

Boxes stand in rows, by how many boxes come before them; the boxes of a frame come below those of all frames before it,
so an arrow that passes a frame by is seen to pass through it. Between two rows of boxes there is one for labels, which
take their places as boxes do and so lie neither on each other nor on another arrow.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from headrace.graph.diagram import one_line
from headrace.graph.layers import Item, Layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.graph.diagram import Arrow, Box, Diagram

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
    """What is drawn around the boxes of a frame, over the whole width; its title stands to their left, line by line."""

    title: tuple[str, ...]
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Layout:
    """A diagram with the places of all its parts."""

    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    arrows: tuple[PlacedArrow, ...]
    bands: tuple[Band, ...]


def laid_out(diagram: Diagram) -> Layout:
    """The places of all parts of a diagram."""
    return _Drawing(diagram).layout()


class _Drawing:
    """The steps from a diagram to its layout: rows, what stands in them, how high they are."""

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
        """Where arrows leave or enter their boxes, side by side, by number.

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

    def layout(self) -> Layout:
        """All places."""
        tops, heights, bands, height = self._rows()
        lines = [self._line(number, tops, heights) for number in range(len(self._ways))]
        boxes = tuple(
            PlacedBox(box, Point(self._x[i], tops[item.row]), item.width, _box_height(box))
            for i, (box, item) in enumerate(zip(self._boxes, self._items, strict=False))
        )
        rights = [x + item.width / 2 for x, item in zip(self._x, self._items, strict=True)]
        headline = MARGIN + text_width(one_line(self._diagram.headline), NAME_SIZE)
        width = max([*rights, headline]) + MARGIN + _BAND_PADDING
        return Layout(width, height, boxes, tuple(lines), bands)

    def _rows(self) -> tuple[list[float], list[float], tuple[Band, ...], float]:
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
        return tops, heights, tuple(bands), bottom + MARGIN

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
    """How deep each box stands, and how deep the last ones of each frame do."""
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
    """What an arrow says; nothing when records just go on."""
    return shortened(label.removeprefix("FORWARD").removeprefix(", "))


def shortened(text: str) -> str:
    """A text on one line, cut where it is long."""
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def text_width(text: str, size: float) -> float:
    """How wide a text is in the widest of the usual fonts without serifs."""
    return size * sum(map(_char_width, text))


def _char_width(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if char in _NARROW:
        return 0.38
    return 0.96 if char in _WIDE else 0.7 if char.isupper() else 0.62
