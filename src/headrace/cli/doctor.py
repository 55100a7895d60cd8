"""``headrace doctor``: shows whether headrace can run here, and what to do where it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from headrace.runtime.spark.diagnosis import Check, diagnose


def run_doctor(settings: Mapping[str, str], master: str | None = None, console: Console | None = None) -> int:
    """Makes all checks and prints them as a table.

    Args:
        settings: the Spark settings that a job would be run with.
        master: the master URL that a job would be run on; Spark's configuration or ``local[*]`` when left out.
        console: where to print; the standard output when left out.

    Returns:
        The exit code: 0 when everything is as it should be, else 1.
    """
    console = console or Console()
    with console.status("Looking around; starting Spark takes a few seconds"):
        checks = list(diagnose(settings, master))
    console.print(checks_table(checks))
    return 0 if all(check.ok for check in checks) else 1


def checks_table(checks: Iterable[Check]) -> Table:
    """One line for each check; the last column says what to do and is left out when there is nothing to do."""
    checks = list(checks)
    table = Table("", "check", Column("found", overflow="fold"))
    something_to_do = any(check.fix for check in checks)
    if something_to_do:
        table.add_column("to do", overflow="fold")
    for check in checks:
        mark = Text("ok", "green") if check.ok else Text("not ok", "bold red")
        # As text: what is found may contain brackets, which rich would take for markup
        cells = [mark, Text(check.name), Text(check.found)]
        table.add_row(*cells, *([Text(check.fix)] if something_to_do else []))
    return table
