"""``headrace lineage``: the datasets of a program and their flow, without running it."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.cli.explain import captured_jobs
from headrace.cli.output import OK
from headrace.cli.settings import LineageFormat
from headrace.lineage.drawing import draw_mermaid, draw_text, lineage_document
from headrace.lineage.graph import LineageGraph, lineage_of


def _json(graph: LineageGraph) -> str:
    return json.dumps(lineage_document(graph), indent=2, ensure_ascii=False) + "\n"


_DRAWN: Final[Mapping[LineageFormat, Callable[[LineageGraph], str]]] = {
    "text": draw_text,
    "json": _json,
    "mermaid": draw_mermaid,
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
        sys.stdout.write(_DRAWN[fmt](lineage_of(plan)))
    return OK
