"""Runs ``headrace sql`` with the options of its command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.cli.output import FAILED, OK, report
from headrace.cli.run import importing_from, run_program
from headrace.cli.sql.client import SqlClient, tables_with
from headrace.client.running import submission_defaults
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.table import TableEnvironment


def run_sql(
    file: Path | None,
    init: Path | None,
    settings: Mapping[str, str],
    of_tables: Sequence[str] = (),
    *,
    progress: bool | None = None,
    full_traceback: bool = False,
) -> int:
    """Execute the statements of scripts, or those typed at a prompt.

    Args:
        file: a script to execute, after which the client exits.
        init: a script to execute first.
        settings: the settings of jobs.
        of_tables: table options, as ``key=value``.
        progress: whether to show the progress of jobs; None for the default.
        full_traceback: whether errors are shown with their traceback.

    Returns:
        The exit code.

    Raises:
        ConfigurationError: when a table option is malformed or unknown.
    """
    tables = tables_with({**settings, **dict(map(_setting, of_tables))})
    if file is None and sys.stdin.isatty():
        return _at_prompt(tables, init)
    client = SqlClient(tables, _write)

    def body() -> None:
        with importing_from(Path() if file is None else file.parent):
            if _run_file(client, init):
                _ = client.run(sys.stdin.read()) if file is None else _run_file(client, file)
            client.wait()

    first = file or init or Path("-")
    return run_program(first, [], settings, progress=progress, full_traceback=full_traceback, body=body)


def _at_prompt(tables: TableEnvironment, init: Path | None) -> int:
    from rich.console import Console

    try:
        from headrace.cli.sql.prompt import PromptClient, SqlPrompt
    except ModuleNotFoundError:
        raise ConfigurationError(
            "the prompt needs prompt_toolkit: pip install 'headrace[sql]'; or give statements with -f"
        ) from None
    client = PromptClient(tables, _write)
    try:
        with importing_from(Path()), submission_defaults({}, client.notice, whole_process=True):
            if _run_file(client, init):
                SqlPrompt(client).run()
    except HeadraceError as error:
        return report(error, Console(stderr=True)) or FAILED
    return OK


def _run_file(client: SqlClient, file: Path | None) -> bool:
    """Execute the statements of a file; return whether to go on."""
    return file is None or client.run(file.read_text(), str(file))


def _setting(definition: str) -> tuple[str, str]:
    key, equals, value = definition.partition("=")
    if not equals:
        raise ConfigurationError(f"-D takes KEY=VALUE, not {definition!r}")
    return key, value


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
