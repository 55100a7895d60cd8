"""``headrace doctor`` and ``package``: whether headrace can run here, and an archive for clusters without it."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from headrace.client.dependencies import package_job
from headrace.runtime.spark.diagnosis import Check, diagnose

_FOLDER: Final = "job"
"""The folder into which executors unpack the archive."""

_MASTER: Final = "spark://HOST:7077"
_PROGRAM: Final = "PROGRAM.py"
_USUAL_PROGRAM: Final = "main.py"


def run_package(
    job: Path,
    archive: Path | None,
    extras: Sequence[str],
    target: Mapping[str, str],
    console: Console | None = None,
) -> None:
    """Make the archive of a job and print the commands that run it.

    Args:
        job: the folder of the job.
        archive: the file to make; the folder's name with ``.zip``, in the working directory, when left out.
        extras: of headrace.
        target: the Python of the executors, as for :func:`package_job`.
        console: where to print; the standard output when left out.
    """
    console = console or Console()
    archive = archive or Path(f"{job.resolve().name}.zip")
    with console.status("pip installs what the job needs"):
        packages = package_job(job, archive, extras, target)
    console.print(_instructions(archive, packages, _program_of(job)), soft_wrap=True, highlight=False, markup=False)


def _instructions(archive: Path, packages: Sequence[str], program: Path) -> str:
    archives, path = f"{archive}#{_FOLDER}", f"spark.executorEnv.PYTHONPATH={_FOLDER}"
    submit = ["spark-submit", "--master", _MASTER, "--archives", archives, "--conf", path, str(program)]
    run = ["headrace", "run", "--master", _MASTER, "-D", f"spark.archives={archives}", "-D", path, str(program)]
    return (
        f"made {archive} ({archive.stat().st_size / 1e6:.0f} MB): the job's modules, {', '.join(packages)}\n"
        f"run the job with\n  {shlex.join(submit)}\nor\n  {shlex.join(run)}"
    )


def _program_of(job: Path) -> Path:
    """The program, if it is not one of the other modules."""
    usual = job / _USUAL_PROGRAM
    programs = [usual] if usual.is_file() else [*job.glob("*.py")]
    return programs[0] if len(programs) == 1 else job / _PROGRAM


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
