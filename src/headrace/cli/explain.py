"""``headrace explain`` and ``headrace lineage``: what a program would run and read and write, without running it."""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from headrace.cli.output import OK, report, without_job
from headrace.cli.run import run_script
from headrace.cli.settings import LineageFormat, PlanFormat
from headrace.client.running import CapturedGraph, GraphCaptured, capture_graphs
from headrace.common.errors import showing_all, shows_all
from headrace.graph.diagram import Diagram, draw_mermaid, draw_text, graph_diagram, graph_document
from headrace.graph.diagram_svg import draw_svg
from headrace.lineage import drawing
from headrace.lineage.graph import LineageGraph, lineage_of
from headrace.plan.explain import plan_diagram, plan_document

_DRAWN: Final[Mapping[PlanFormat, Callable[[Diagram], str]]] = {
    "text": draw_text,
    "mermaid": draw_mermaid,
    "svg": draw_svg,
}


def explain_program(
    script: Path,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    *,
    fmt: PlanFormat,
    logical: bool,
    full_traceback: bool = False,
) -> int:
    """Run a program up to its first ``execute()`` and print the job that it would have run.

    What the program prints goes to the standard error, so that the standard output holds the job alone.

    Returns:
        The exit code.
    """
    captured = captured_jobs(script, arguments, settings, full_traceback=full_traceback)
    if isinstance(captured, int):
        return captured
    for job in captured:
        sys.stdout.write(_plan_text(job, fmt, logical=logical))
    return OK


def captured_jobs(
    script: Path, arguments: Sequence[str], settings: Mapping[str, str], *, full_traceback: bool
) -> list[CapturedGraph] | int:
    """The jobs that a program would have run, up to its first ``execute()``; or the exit code when there is none."""
    console = Console(stderr=True)
    full = full_traceback or shows_all()
    with showing_all(full), capture_graphs(settings) as captured, contextlib.redirect_stdout(sys.stderr):
        try:
            run_script(script, arguments)
        except GraphCaptured:
            pass
        except BaseException as error:
            if not captured:
                return report(error, console, script, full=full) or without_job(script, console)
    return captured or without_job(script, console)


def _plan_text(job: CapturedGraph, fmt: PlanFormat, *, logical: bool) -> str:
    graph, plan = job
    if fmt == "json":
        document = graph_document(graph) if logical else plan_document(plan)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return _DRAWN[fmt](graph_diagram(graph) if logical else plan_diagram(plan))


_LINEAGE_DRAWN: Final[Mapping[LineageFormat, Callable[[LineageGraph], str]]] = {
    "text": drawing.draw_text,
    "json": lambda graph: json.dumps(drawing.lineage_document(graph), indent=2, ensure_ascii=False) + "\n",
    "mermaid": drawing.draw_mermaid,
}


def show_lineage(
    script: Path,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    *,
    fmt: LineageFormat,
    full_traceback: bool = False,
) -> int:
    """Run a program up to its first ``execute()``, and print the lineage of the job that it would have run.

    Returns:
        The exit code.
    """
    captured = captured_jobs(script, arguments, settings, full_traceback=full_traceback)
    if isinstance(captured, int):
        return captured
    for _, plan in captured:
        sys.stdout.write(_LINEAGE_DRAWN[fmt](lineage_of(plan)))
    return OK
