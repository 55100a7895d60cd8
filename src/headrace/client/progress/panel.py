"""A job's progress as a panel on a terminal, redrawn in place while others go on printing above it."""

from __future__ import annotations

import logging
import sys
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.client.progress import wording
from headrace.client.progress.job_progress import RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console, RenderableType

    from headrace.client.progress.job_progress import JobProgress

_REFRESHES_PER_SECOND: Final = 4


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


class LivePanel:
    """Shows something at its own pace until it is closed, and then takes it away.

    What is printed meanwhile appears above it: by ``print``, and by handlers of logging that were made before and so
    know the terminal itself.

    Args:
        console: where to draw.
        draw: gives what is to be shown.
    """

    def __init__(self, console: Console, draw: Callable[[], RenderableType]) -> None:
        streams = (sys.stdout, sys.stderr)
        self._live = Live(
            console=console,
            get_renderable=draw,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
            # What goes into a file or a pipe must not pass through the terminal
            redirect_stdout=getattr(sys.stdout, "isatty", bool)(),
        )
        self._live.start()
        self._handlers = _redirect({id(old): new for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True)})

    def close(self) -> None:
        """Take it away; what was redirected goes where it went before."""
        for handler, stream in self._handlers:
            handler.setStream(stream)
        self._live.stop()


def _redirect(streams: dict[int, Any]) -> list[tuple[logging.StreamHandler[Any], Any]]:
    """Have the handlers of the root logger write to other streams.

    Args:
        streams: by the identity of the one that a handler has, the one that it gets.

    Returns:
        The handlers that were changed, each with the stream that it had.
    """
    changed = []
    for handler in logging.getLogger().handlers:
        # A handler for files is one, too; its own class says where it writes
        if type(handler) is logging.StreamHandler and streams.get(id(handler.stream)) not in (None, handler.stream):
            changed.append((handler, handler.stream))
            handler.setStream(streams[id(handler.stream)])
    return changed
