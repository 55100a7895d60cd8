"""The lineage of a job as its page shows it: a picture of datasets and their flow, and what each field is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.graph.diagram import Arrow, Box, Diagram, DiagramFrame, count_of
from headrace.graph.diagram_svg import draw_svg

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
    """What a job reads or writes at a source or a sink.

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
        """What it is called: by its datasets, or else by its own name."""
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
    """The view of what is told of a lineage."""
    sources = tuple(_end(each, {}) for each in document["sources"])
    called = {source.uid: source.called for source in sources}
    sinks = tuple(_end(each, called) for each in document["sinks"])
    return LineageView(sources, sinks, _svg(sources, sinks, document))


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
    told = None if origins is None else tuple(map(_origin, origins))
    return FieldView(document["name"], document["type"], told)


def _origin(document: Mapping[str, Any]) -> OriginView:
    return OriginView(_short(document["name"]), document["field"], document["is_same"])


def _svg(sources: Sequence[EndView], sinks: Sequence[EndView], document: Mapping[str, Any]) -> str:
    numbers = {end.uid: number for number, end in enumerate((*sources, *sinks))}
    frames = (
        DiagramFrame("reads", tuple(_box(each, numbers[each.uid], "Data Source") for each in sources)),
        DiagramFrame("writes", tuple(_box(each, numbers[each.uid], "Data Sink") for each in sinks)),
    )
    arrows = tuple(
        Arrow(numbers[uid], numbers[sink["uid"]], "", is_exchange=True)
        for sink in document["sinks"]
        for uid in sink["inputs"]
    )
    headline = f"{count_of(len(sources), 'source')}, {count_of(len(sinks), 'sink')}"
    return draw_svg(Diagram(headline, frames, arrows), has_style=False)


def _box(end: EndView, number: int, role: str) -> Box:
    namespaces = dict.fromkeys(namespace for namespace, _ in end.datasets)
    fields = count_of(len(end.fields), "field")
    where = next(iter(namespaces), "no dataset that others know")
    asides = tuple(f"{namespace} {name}" for namespace, name in end.datasets)
    return Box(number, end.called, role, (where, fields), asides)


def _short(name: str) -> str:
    """The last part of a path, with the folder that it is in; of another name all of it."""
    return "/".join(name.rstrip("/").rsplit("/", 2)[-2:]) if name.startswith("/") else name
