"""The session of the prompt: its jobs run in the background, and tables of results are redrawn in place."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli.sql.client import SqlClient, Write
from headrace.cli.sql.current_rows import CurrentRows
from headrace.client.job_client import JobClient
from headrace.common.errors import JobCancelledError
from headrace.jobmanager.status import JobEvent, JobSnapshot, RuntimeStarting
from headrace.table import TableEnvironment, TableResult
from headrace.table.options import MOST_ROWS

_AROUND: Final = 6
"""The lines of a table besides its rows, and the one below it."""


class PromptClient(SqlClient):
    """Shows results on a terminal.

    Args:
        tables: executes the statements.
        write: shows a line.
        console: the terminal.
    """

    def __init__(self, tables: TableEnvironment, write: Write, console: Console | None = None) -> None:
        super().__init__(tables, write)
        self._console = console or Console()

    def notice(self, event: JobEvent, _: JobSnapshot) -> None:
        """Say what a statement waits for: the start of Spark."""
        if isinstance(event, RuntimeStarting):
            self.write(f"[INFO] Starting {event.what}.")

    def _show_table(self, result: TableResult) -> None:
        rows, most = CurrentRows(result), self._settings.get(MOST_ROWS)
        with Live(console=self._console, auto_refresh=False) as live:
            rows.follow(lambda: live.update(self._fitted(rows, most), refresh=True))
            live.update("")
        self._write_all(rows.lines(most))

    def _fitted(self, rows: CurrentRows, most: int) -> Text:
        lines = rows.lines(min(most, max(self._console.height - _AROUND, 1)))
        return Text("\n".join(lines), no_wrap=True, overflow="crop")

    def _started(self, job: JobClient) -> None:
        super()._started(job)
        if job in self.jobs:
            job.get_job_execution_result().add_done_callback(lambda result: self._ended(job, result.exception()))

    def _ended(self, job: JobClient, error: BaseException | None) -> None:
        if error is None:
            self.write(f"[INFO] Job {job.get_job_id()} has finished.")
        elif not isinstance(error, JobCancelledError):
            self.write(f"[ERROR] Job {job.get_job_id()} has failed: {error}")
