"""The lineage of a job as text, as a document, and as a Mermaid diagram."""

from collections.abc import Iterator
from typing import Any

from headrace.common.logs import get_logger
from headrace.connectors.datasets import LineageDataset
from headrace.graph.diagram import count_of
from headrace.lineage.graph import FieldOrigin, LineageField, LineageGraph, LineageVertex, lineage_of
from headrace.plan.job_plan import JobPlan

logger = get_logger(__name__)


def draw_text(graph: LineageGraph) -> str:
    """Draw what a job reads and writes, with the origins of each field that it writes."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: LineageGraph) -> Iterator[str]:
    yield f"{graph.job}: {count_of(len(graph.sources), 'source')}, {count_of(len(graph.sinks), 'sink')}"
    names = {source.uid: _called(source) for source in graph.sources}
    for source in graph.sources:
        yield f"reads {_called(source)}: {', '.join(f'{each.name} {each.type}' for each in source.fields)}"
    for sink in graph.sinks:
        yield f"writes {_called(sink)}, from {', '.join(names[uid] for uid in sink.inputs) or 'no source'}"
        yield from (f"  {field.name} {field.type} <- {_origins(field)}" for field in sink.fields)


def _called(vertex: LineageVertex) -> str:
    return ", ".join(map(str, vertex.datasets)) or vertex.name


def _origins(field: LineageField) -> str:
    if field.origins is None:
        return "?"
    return ", ".join(map(_origin, field.origins)) or "-"


def _origin(origin: FieldOrigin) -> str:
    return f"{origin.dataset.name}.{origin.field}{'' if origin.is_same else ' (computed)'}"


def lineage_report(plan: JobPlan) -> dict[str, Any] | None:
    """The lineage of a job for other programs; None where it cannot be found, which no job fails by."""
    try:
        return lineage_document(lineage_of(plan))
    except Exception:
        logger.warning("the lineage of job %r cannot be reported", plan.name, exc_info=True)
        return None


def lineage_document(graph: LineageGraph) -> dict[str, Any]:
    """The lineage for other programs."""
    return {
        "job": graph.job,
        "sources": [_vertex(each) for each in graph.sources],
        "sinks": [{**_vertex(each), "inputs": list(each.inputs)} for each in graph.sinks],
    }


def _vertex(vertex: LineageVertex) -> dict[str, Any]:
    return {
        "uid": vertex.uid,
        "name": vertex.name,
        "datasets": [_dataset(each) for each in vertex.datasets],
        "fields": [_field(each) for each in vertex.fields],
    }


def _dataset(dataset: LineageDataset) -> dict[str, str]:
    return {"namespace": dataset.namespace, "name": dataset.name}


def _field(field: LineageField) -> dict[str, Any]:
    known = {"name": field.name, "type": field.type}
    if field.origins is None:
        return known
    origins = [{**_dataset(each.dataset), "field": each.field, "is_same": each.is_same} for each in field.origins]
    return {**known, "origins": origins}


def draw_mermaid(graph: LineageGraph) -> str:
    """A Mermaid diagram of datasets and their flow."""
    ids = {each.uid: f"n{index}" for index, each in enumerate((*graph.sources, *graph.sinks))}
    boxes = [f'    {ids[each.uid]}[("{_quoted(_called(each))}")]' for each in (*graph.sources, *graph.sinks)]
    arrows = [f"    {ids[uid]} --> {ids[sink.uid]}" for sink in graph.sinks for uid in sink.inputs]
    return "\n".join(["flowchart LR", *boxes, *arrows]) + "\n"


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")
