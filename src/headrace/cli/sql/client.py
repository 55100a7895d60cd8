"""Statements of a session, executed one after the other, and their results as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from headrace.cli.sql.commands import HELP, ClientCommand, without_commands
from headrace.cli.sql.current_rows import RemainingRows
from headrace.common.call_site import CallSite, declared_at
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError
from headrace.common.options import RUNTIME_MODE
from headrace.table import ResultKind, TableEnvironment, TableResult
from headrace.table.environment.statements import bound_statements, execute_statement
from headrace.table.environment.tableau import table_lines
from headrace.table.options import (
    BUILT_IN_CATALOG,
    BUILT_IN_DATABASE,
    CATALOG_STORE,
    CATALOG_STORE_PATH,
    DML_SYNC,
    MOST_ROWS,
    RESULT_MODE,
)
from headrace.table.parse import parse_script
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree import statements as sql
from headrace.table.parse.tree.definitions import Statement

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient


class ResultMode(Enum):
    """The display modes of query results."""

    TABLEAU = "tableau"
    """A table that grows as rows come."""
    TABLE = "table"
    """A table of the rows after all changes."""
    CHANGELOG = "changelog"
    """The changes as they come, one per line."""


Write = Callable[[str], None]
"""Shows a line."""


def tables_with(settings: Mapping[str, str]) -> TableEnvironment:
    """A table environment with the settings of a session."""
    of_session = (RUNTIME_MODE, CATALOG_STORE, CATALOG_STORE_PATH, BUILT_IN_CATALOG, BUILT_IN_DATABASE)
    tables = TableEnvironment.create(
        Configuration.from_dict({option.key: settings[option.key] for option in of_session if option.key in settings})
    )
    for key, value in settings.items():
        tables.get_config().set(key, value)
    return tables


class SqlClient:
    """A session: it executes statements and shows their results.

    Args:
        tables: executes the statements.
        write: shows a line.

    Attributes:
        write: shows a line.
        tables: executes the statements.
        jobs: the jobs of ``INSERT`` statements that have not been waited for.
    """

    def __init__(self, tables: TableEnvironment, write: Write) -> None:
        self.tables = tables
        self.jobs: list[JobClient] = []
        self.write = write
        self._set: list[sql.Insert] | None = None

    def run(self, text: str, name: str | None = None) -> bool:
        """Execute the statements and commands of a script; stop at the first error, and at ``QUIT``.

        Args:
            text: the script.
            name: the name of its file, for errors.

        Returns:
            Whether to go on; False after ``QUIT``.

        Raises:
            SqlParseError: when a statement has a syntax error; then none is executed.
            HeadraceError: when one cannot be executed, or its job fails.
        """
        source, (statements, found) = SqlSource(text, name), without_commands(text)
        steps: list[tuple[int, Statement | ClientCommand]] = [*found]
        steps += [(statement.start, statement) for statement in parse_script(statements, name)]
        for _, step in sorted(steps, key=lambda step: step[0]):
            if step is ClientCommand.QUIT:
                return False
            if isinstance(step, ClientCommand):
                self._obey(step)
            else:
                with declared_at(_place(step, source)):
                    self._execute(step, source)
        return True

    def _obey(self, command: ClientCommand) -> None:
        if command is ClientCommand.HELP:
            self.write(HELP)

    def wait(self) -> None:
        """Wait until all jobs that were started have ended, and no materialized table is refreshed any more.

        Raises:
            JobExecutionError: when one has failed.
        """
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job.get_job_execution_result().result()
        self.tables.keep_refreshing()

    def cancel(self) -> None:
        """End all jobs that were started."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job.cancel().result()

    @property
    def mode(self) -> ResultMode:
        """The format in which the rows of queries are shown.

        Raises:
            ConfigurationError: when there is no such mode.
        """
        return ResultMode(self._settings.get(RESULT_MODE))

    @property
    def _settings(self) -> Configuration:
        return self.tables.get_config().get_configuration()

    def _execute(self, statement: Statement, source: SqlSource) -> None:
        if isinstance(statement, sql.BeginStatementSet):
            self._set = []
            self.write("[INFO] Begin a statement set; END starts its job.")
        elif isinstance(statement, sql.EndStatementSet):
            self._end_set(source)
        elif self._set is not None:
            self._add_to_set(statement, source)
        else:
            self._show(execute_statement(self.tables, statement, source))

    def _add_to_set(self, statement: Statement, source: SqlSource) -> None:
        if not isinstance(statement, sql.Insert):
            raise InvalidProgramError(
                f"only INSERT is in a statement set, not {type(statement).__name__}: END it first"
            )
        bound_statements(self.tables, statement, source)  # reports errors now, not at the end of the set
        assert self._set is not None
        self._set.append(statement)
        self.write("[INFO] Added to the statement set.")

    def _end_set(self, source: SqlSource) -> None:
        if self._set is None:
            raise InvalidProgramError("there is no statement set: begin one with BEGIN STATEMENT SET")
        inserts, self._set = self._set, None
        if inserts:
            relations = [each for insert in inserts for each in bound_statements(self.tables, insert, source)]
            self._show(self.tables.run_inserts(relations))

    def _show(self, result: TableResult) -> None:
        job = result.get_job_client()
        if result.is_query:
            self._show_rows(result)
        elif job is not None:
            self._started(job)
        elif result.get_result_kind() is ResultKind.SUCCESS:
            self.write("[INFO] Execute statement succeeded.")
        else:
            self._write_all(result.lines())

    def _started(self, job: JobClient) -> None:
        if self._settings.get(DML_SYNC):
            job.get_job_execution_result().result()
            self.write("[INFO] Complete execution of the statement.")
        else:
            self.jobs.append(job)
            self.write(f"[INFO] Job {job.get_job_id()} was started.")

    # --- rows --------------------------------------------------------------------------------------------------------

    def _show_rows(self, result: TableResult) -> None:
        try:
            match self.mode:
                case ResultMode.TABLEAU:
                    self._write_all(result.lines())
                case ResultMode.CHANGELOG:
                    self._write_all(_changelog(result.text_rows()))
                case ResultMode.TABLE:
                    self._show_table(result)
        except BaseException:
            result.close()
            raise

    def _show_table(self, result: TableResult) -> None:
        rows = RemainingRows()
        for change in result.text_rows():
            rows.apply(change)
        self._write_all(table_lines(result.get_resolved_schema().names, rows.last(self._settings.get(MOST_ROWS))))

    def _write_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def _place(statement: Statement, source: SqlSource) -> CallSite:
    keyword = source.text[statement.start : statement.end].split(maxsplit=1)[0].upper()
    return CallSite(source.name or "<SQL>", source.position(statement.start).line, keyword)


def _changelog(rows: Iterator[list[str]]) -> Iterator[str]:
    for kind, *values in rows:
        yield f"{kind}[{', '.join(values)}]"
