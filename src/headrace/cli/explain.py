"""``headrace explain``: shows what a program would run, without running it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from rich.console import Console

from headrace.cli.failures import FAILED, OK, report
from headrace.cli.script import run_script
from headrace.client.defaults import CapturedGraph, GraphCaptured, capture_graphs
from headrace.graph.render_json import render_json
from headrace.graph.render_mermaid import render_mermaid
from headrace.graph.render_text import render_text
from headrace.plan.explain_json import explain_json
from headrace.plan.explain_mermaid import explain_mermaid
from headrace.plan.explain_text import explain_text


class Format(StrEnum):
    """How a job is shown."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"


_LOGICAL: Final = {Format.TEXT: render_text, Format.MERMAID: render_mermaid, Format.JSON: render_json}
_PHYSICAL: Final = {Format.TEXT: explain_text, Format.MERMAID: explain_mermaid, Format.JSON: explain_json}


def explain_program(
    script: Path,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    *,
    fmt: Format,
    logical: bool,
    full_traceback: bool = False,
) -> int:
    """Run a program up to its first ``execute()`` and print the job that it would have run.

    What the program prints goes to the standard error, so that the standard output holds the job alone.

    Returns:
        The exit code.
    """
    console = Console(stderr=True)
    with capture_graphs(settings) as captured, contextlib.redirect_stdout(sys.stderr):
        try:
            run_script(script, arguments)
        except GraphCaptured:
            pass
        except BaseException as error:
            if not captured:
                return report(error, console, script, full=full_traceback) or _nothing_to_show(script, console)
    if not captured:
        return _nothing_to_show(script, console)
    for job in captured:
        sys.stdout.write(_renderer(fmt, logical=logical)(job))
    return OK


def _renderer(fmt: Format, *, logical: bool) -> Callable[[CapturedGraph], str]:
    return (lambda job: _LOGICAL[fmt](job.graph)) if logical else (lambda job: _PHYSICAL[fmt](job.plan))


def _nothing_to_show(script: Path, console: Console) -> int:
    console.print(f"error: {script} ended without a job: it never came to execute()", markup=False, soft_wrap=True)
    return FAILED
