"""Pictures of a job as SVG: its graph, coloured by where time goes, its last epochs in their parts, and its lineage.

Their colours are in the style sheet of the pages, so that they follow its light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from headrace.common import wording
from headrace.graph.diagram import Arrow, Box, Diagram, DiagramFrame, count_of, one_line
from headrace.graph.diagram_svg import PlacedBox, draw_svg, drawn_number
from headrace.server.dashboard.job_view import EpochView, GraphView, JobView, OperatorView

_BAR_HEIGHT: Final = 5.0
_HEATS: Final = 5


def graph_svg(graph: GraphView, operators: Sequence[OperatorView]) -> str:
    """The graph of a job; each operator has a shade, and a bar that says where its time has gone."""
    known = {operator.node: operator for operator in operators}
    frames = tuple(
        DiagramFrame(frame.title, tuple(_box(Box(b.id, b.name, b.role, b.notes, b.asides), known) for b in frame.boxes))
        for frame in graph.frames
    )
    arrows = tuple(Arrow(each.source, each.target, each.label, each.is_exchange) for each in graph.arrows)
    classes = {node: f"heat-{heat(operator.busy)}" for node, operator in known.items() if operator.busy is not None}

    def bar(placed: PlacedBox) -> Iterator[str]:
        operator = known.get(placed.box.id)
        if operator is not None and operator.busy is not None:
            yield from _bar(placed, operator)

    return draw_svg(Diagram(graph.headline, frames, arrows), classes=classes, inside=bar, has_style=False)


def heat(busy: float | None) -> int:
    """The heat with which an operator is shown, from 0 to 4."""
    return 0 if busy is None else min(_HEATS - 1, int(busy * _HEATS))


def _box(box: Box, known: Mapping[int, OperatorView]) -> Box:
    operator = known.get(box.id)
    if operator is None or operator.busy is None:
        return box
    rate = wording.rate(operator.rate_in)
    load = f"{operator.busy:.0%} busy · {rate}"
    waiting = (f"{operator.back_pressured:.0%} back-pressured",) if (operator.back_pressured or 0) >= 0.05 else ()
    return Box(box.id, box.name, box.role, (*box.notes, load, *waiting, ""), box.asides)


def _bar(placed: PlacedBox, operator: OperatorView) -> Iterator[str]:
    """The parts of the time of the busiest subtask, at the bottom of its box."""
    busy, waited = operator.busy or 0.0, operator.back_pressured or 0.0
    width, left = placed.width - 24, placed.top.x - placed.width / 2 + 12
    top = placed.top.y + placed.height - _BAR_HEIGHT - 8
    total = max(1.0, busy + waited)
    at = left
    yield _rectangle("time-idle", left, top, width)
    for name, share in (("time-busy", busy / total), ("time-waited", waited / total)):
        if share > 0:
            yield _rectangle(name, at, top, width * share)
            at += width * share


def _rectangle(name: str, x: float, y: float, width: float) -> str:
    place = f'x="{drawn_number(x)}" y="{drawn_number(y)}" width="{drawn_number(width)}"'
    return f'<rect class="{name}" {place} height="{drawn_number(_BAR_HEIGHT)}" rx="2"/>'


@dataclass(frozen=True, slots=True)
class EpochPart:
    """A part of an epoch: the field of the view, what it is called, and what it is."""

    field: str
    name: str
    about: str


PARTS: Final = (
    EpochPart("planning", "plan", "sources look what there is to read"),
    EpochPart("reading", "read", "tasks read what was planned"),
    EpochPart("shuffling", "shuffle", "records travel between stages, and tasks are begun"),
    EpochPart("operating", "operators", "functions, windows and joins are at work"),
    EpochPart("checkpointing", "checkpoint", "the manifest is written: the commit point"),
    EpochPart("committing", "commit", "the job waits for sinks that are behind"),
)
"""The parts of an epoch, in their order."""


def epoch_seconds(epoch: EpochView) -> float:
    """The time of a whole epoch."""
    return sum(float(getattr(epoch, part.field)) for part in PARTS)


_BAR: Final = 14.0
_GAP: Final = 4.0
_HEIGHT: Final = 150.0
LEAST_BARS: Final = 20
"""A chart has room for so many epochs, however few there are."""


def timeline_svg(job: JobView) -> str:
    """The last epochs, a bar each, as high as they took; the parts of an epoch lie on one another in their order."""
    seconds = [epoch_seconds(epoch) for epoch in job.epochs]
    top = max(seconds, default=0.0) or 1.0
    width = max(LEAST_BARS, len(job.epochs)) * (_BAR + _GAP)
    box = f'viewBox="0 0 {drawn_number(width)} {drawn_number(_HEIGHT)}" preserveAspectRatio="none"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" {box} role="img" aria-labelledby="timeline-title">',
        f'<title id="timeline-title">{escape(_about(seconds))}</title>',
    ]
    for number, epoch in enumerate(job.epochs):
        parts.extend(_bar_of_epoch(epoch, number * (_BAR + _GAP) + _GAP / 2, top))
    parts.append("</svg>")
    return "".join(parts)


def _bar_of_epoch(epoch: EpochView, x: float, top: float) -> Iterator[str]:
    yield f"<g><title>{escape(_title(epoch))}</title>"
    yield f'<rect class="hit" x="{drawn_number(x)}" y="0" width="{drawn_number(_BAR)}" height="{_HEIGHT:.0f}"/>'
    bottom = _HEIGHT
    for part in PARTS:
        height = float(getattr(epoch, part.field)) / top * (_HEIGHT - 4)
        if height > 0.05:
            bottom -= height
            place = f'x="{drawn_number(x)}" y="{bottom:.2f}" width="{drawn_number(_BAR)}" height="{height:.2f}"'
            yield f'<rect class="part-{part.name}" {place}/>'
    yield "</g>"


def _title(epoch: EpochView) -> str:
    times = (f"{part.name} {wording.precise_span(getattr(epoch, part.field))}" for part in PARTS)
    return "\n".join((f"epoch {epoch.number:,}: {wording.count(epoch.records, 'record')}", *times))


def _about(seconds: Sequence[float]) -> str:
    if not seconds:
        return "no epoch yet"
    longest = wording.precise_span(max(seconds))
    return one_line(f"the last {len(seconds)} epochs; the longest took {longest}")


_MOST_NAMED: Final = 2
"""The largest number of datasets of an operator that its box names."""

_MOST_FIELDS: Final = 500


@dataclass(frozen=True, slots=True)
class OriginView:
    """A field that another one is made of: the dataset, its name there, and whether values are taken over."""

    dataset: str
    field: str
    is_same: bool


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field: its name, its type, and what it is made of; None where that is not known."""

    name: str
    type: str
    origins: tuple[OriginView, ...] | None


@dataclass(frozen=True, slots=True)
class EndView:
    """The end of a job's graph: what it reads at a source, or writes at a sink.

    Attributes:
        name: the name of that.
        uid: its uid.
        datasets: what it reads or writes, each with its namespace; empty where others cannot know it.
        fields: the fields of its records.
        inputs: what is read for it, if it is a sink.
    """

    name: str
    uid: str
    datasets: tuple[tuple[str, str], ...]
    fields: tuple[FieldView, ...]
    inputs: tuple[str, ...]

    @property
    def called(self) -> str:
        """Its title: its datasets, or else its own name."""
        names = [_short(name) for _, name in self.datasets]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return ", ".join(names[:_MOST_NAMED]) + more or self.name


@dataclass(frozen=True, slots=True)
class LineageView:
    """The lineage of a job: what it reads, what it writes, and a picture of that."""

    sources: tuple[EndView, ...]
    sinks: tuple[EndView, ...]
    svg: str


def lineage_view(document: Mapping[str, Any]) -> LineageView:
    """The view of the report of a lineage."""
    sources = tuple(_end(each, {}) for each in document["sources"])
    called = {source.uid: source.called for source in sources}
    sinks = tuple(_end(each, called) for each in document["sinks"])
    return LineageView(sources, sinks, _lineage_svg(sources, sinks, document))


def _end(document: Mapping[str, Any], called: Mapping[str, str]) -> EndView:
    return EndView(
        name=document["name"],
        uid=document["uid"],
        datasets=tuple((each["namespace"], each["name"]) for each in document["datasets"]),
        fields=tuple(map(_field, document["fields"][:_MOST_FIELDS])),
        inputs=tuple(called.get(uid, uid) for uid in document.get("inputs", ())),
    )


def _field(document: Mapping[str, Any]) -> FieldView:
    origins = document.get("origins")
    sources = None if origins is None else tuple(map(_origin, origins))
    return FieldView(document["name"], document["type"], sources)


def _origin(document: Mapping[str, Any]) -> OriginView:
    return OriginView(_short(document["name"]), document["field"], document["is_same"])


def _lineage_svg(sources: Sequence[EndView], sinks: Sequence[EndView], document: Mapping[str, Any]) -> str:
    numbers = {end.uid: number for number, end in enumerate((*sources, *sinks))}
    frames = (
        DiagramFrame("reads", tuple(_box_of_end(each, numbers[each.uid], "Data Source") for each in sources)),
        DiagramFrame("writes", tuple(_box_of_end(each, numbers[each.uid], "Data Sink") for each in sinks)),
    )
    arrows = tuple(
        Arrow(numbers[uid], numbers[sink["uid"]], "", is_exchange=True)
        for sink in document["sinks"]
        for uid in sink["inputs"]
    )
    headline = f"{count_of(len(sources), 'source')}, {count_of(len(sinks), 'sink')}"
    return draw_svg(Diagram(headline, frames, arrows), has_style=False)


def _box_of_end(end: EndView, number: int, role: str) -> Box:
    namespaces = dict.fromkeys(namespace for namespace, _ in end.datasets)
    fields = count_of(len(end.fields), "field")
    where = next(iter(namespaces), "no dataset that others know")
    asides = tuple(f"{namespace} {name}" for namespace, name in end.datasets)
    return Box(number, end.called, role, (where, fields), asides)


def _short(name: str) -> str:
    """The last part of a path, with the folder that it is in; of another name all of it."""
    return "/".join(name.rstrip("/").rsplit("/", 2)[-2:]) if name.startswith("/") else name
