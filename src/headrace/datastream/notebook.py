"""The HTML of environments, streams and sinks in notebooks: facts, and the graph as a picture."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError
from headrace.common.notebooks import framed, preformatted
from headrace.datastream.execution_config import ExecutionConfig
from headrace.graph.diagram import Diagram, draw_text, graph_diagram
from headrace.graph.diagram_svg import draw_svg
from headrace.graph.stream_graph import StreamGraph
from headrace.plan.explain import plan_diagram
from headrace.plan.job_plan import JobPlan

_MOST_BOXES: Final = 200
"""The largest graph that is shown as a picture; a larger one is clearer as text."""


def environment_html(
    heading: str, configuration: Configuration, job: StreamGraph | None, plan: Callable[[], JobPlan]
) -> str:
    """The settings that matter most, and the plan of the next job, or why there is none.

    Args:
        heading: what the environment is called.
        configuration: its settings.
        job: the next job; None when nothing was built for it.
        plan: plans it.
    """
    try:
        facts = _settings(configuration)
    except HeadraceError as error:
        return framed(heading, {"settings": error})
    if job is None:
        return framed(heading, facts | {"next job": "nothing was built since the last one"})
    try:
        diagram = plan_diagram(plan())
    except HeadraceError as error:
        facts["next job"] = f"cannot be run: {error}"
        diagram = graph_diagram(job)
    return framed(heading, facts, picture(diagram))


def _settings(configuration: Configuration) -> dict[str, object]:
    return {
        "runtime": configuration.get(options.RUNTIME),
        "parallelism": ExecutionConfig(configuration).get_parallelism(),
        "checkpoints": configuration.get(options.CHECKPOINT_DIR) or "in a temporary directory",
    }


def stream_html(heading: str, facts: Mapping[str, object], graph: StreamGraph, ids: Collection[int]) -> str:
    """The facts about a stream or a sink, and all that comes before it; the operators that it comes from stand out."""
    return framed(heading, facts, picture(graph_diagram(graph.subgraph(ids)), ids))


def picture(diagram: Diagram, marked: Collection[int] = ()) -> str:
    """A diagram for a page; as text when it is too large for a picture."""
    if sum(len(frame.boxes) for frame in diagram.frames) > _MOST_BOXES:
        return preformatted(draw_text(diagram))
    return draw_svg(diagram, marked, standalone=False)
