"""A job's progress as a panel that is redrawn in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.client.progress import wording

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from headrace.client.progress.job_progress import JobProgress
    from headrace.jobmanager.progress import EpochStatistics

_BARS: Final = "▁▂▃▄▅▆▇█"


def panels(jobs: Iterable[JobProgress]) -> RenderableType:
    """A panel for each job."""
    return Group(*map(panel, jobs))


def panel(job: JobProgress) -> Panel:
    """One job: what it has done, how fast, and how far event time has come."""
    body: list[RenderableType] = [_waiting() if job.latest is None else _grid(job, job.latest)]
    if job.skipped_files:
        body.append(Text(job.skipped_files, "yellow"))
    if job.note:
        body.append(Text(job.note, "yellow"))
    restored = job.start.restored_epoch
    origin = "" if restored is None else f", restored epoch {restored}"
    # As text: a job's name may contain brackets, which rich would take for markup
    title = Text.assemble((job.name, "bold"), f"{origin}, {wording.span(job.seconds)}")
    return Panel(Group(*body), title=title, title_align="left", border_style="cyan", padding=(0, 1))


def _waiting() -> Text:
    return Text("waiting for the first epoch", "dim")


def _grid(job: JobProgress, latest: EpochStatistics) -> Table:
    grid = Table.grid(padding=(0, 2), expand=True)
    for style, ratio in (("dim", None), ("", 3), ("dim", None), ("", 2)):
        grid.add_column(style=style, ratio=ratio, no_wrap=True)
    rate = Text.assemble((wording.number(job.meter.rate()), "bold green"), "  ", (trend(job.trend), "green"))
    lag = "-" if latest.watermark_lag is None else wording.behind(latest.watermark_lag)
    grid.add_row("records", wording.number(job.records), "epoch", f"{latest.epoch} ({latest.seconds:.2f} s)")
    grid.add_row("records/s", rate, "state", wording.size(latest.state_bytes))
    grid.add_row("watermark", wording.watermark(latest.watermark), "late, dropped", wording.number(job.late_records))
    grid.add_row("its lag", lag, "pending commits", str(latest.pending_commits))
    return grid


def trend(values: Iterable[float], width: int = 20) -> str:
    """The last values as a row of bars, from nothing to the largest of them."""
    shown = list(values)[-width:]
    largest = max(shown, default=0.0)
    if largest <= 0:
        return ""
    top = len(_BARS) - 1
    return "".join(_BARS[round(value / largest * top)] for value in shown)
