"""A job's progress as a panel that is redrawn in place."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.client.progress import wording
from headrace.client.progress.job_progress import RATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from headrace.client.progress.job_progress import JobProgress


def panels(jobs: Iterable[JobProgress]) -> RenderableType:
    """A panel for each job."""
    return Group(*map(panel, jobs))


def panel(job: JobProgress) -> Panel:
    """One job: what it has done, how fast, and how far event time has come."""
    body: list[RenderableType] = [_grid(job) if job.facts else _waiting()]
    if job.skipped_files:
        body.append(Text(job.skipped_files, "yellow"))
    if job.note:
        body.append(Text(job.note, "yellow"))
    # As text: a job's name may contain brackets, which rich would take for markup
    title = Text.assemble((job.name, "bold"), f", {job.standing}")
    return Panel(Group(*body), title=title, title_align="left", border_style="cyan", padding=(0, 1))


def _waiting() -> Text:
    return Text("waiting for the first epoch", "dim")


def _grid(job: JobProgress) -> Table:
    grid = Table.grid(padding=(0, 2), expand=True)
    for style, ratio in (("dim", None), ("", 3), ("dim", None), ("", 2)):
        grid.add_column(style=style, ratio=ratio, no_wrap=True)
    facts = [(name, _styled(name, text, job)) for name, text in job.facts.items()]
    half = (len(facts) + 1) // 2
    for left, right in zip_longest(facts[:half], facts[half:], fillvalue=()):
        grid.add_row(*left, *right)
    return grid


def _styled(name: str, text: str, job: JobProgress) -> Text:
    if name != RATE:
        return Text(text)
    return Text.assemble((text, "bold green"), "  ", (wording.trend(job.trend), "green"))
