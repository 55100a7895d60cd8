"""The processes of a dispatcher's jobs: ``python -m headrace.cli.job_process FOLDER``.

A process claims its attempt before it does anything else, and ends where a later attempt was begun. With ``--plan`` it
runs the program only up to its first job, and writes the plan of that.
"""

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
import zipfile
import zlib
from pathlib import Path
from typing import Final

from headrace.common import options, server_options
from headrace.common.configuration import Configuration
from headrace.common.durable import write_file
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.common.logs import get_logger
from headrace.savepoint.requests import JobProcess
from headrace.server.cluster.processes import LOG, OUTPUT, PLAN, SERVER, TASK, TOKEN, JobTask
from headrace.server.cluster.records import AttemptEnd, RunRecord, RunRecords, StartedProcess, millis
from headrace.server.rotated_log import LogLimits, RotatedLog, keep_bounded
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

SUPERSEDED: Final = 75
"""The exit code of a process that another one has taken the place of."""

_WATCH_SECONDS: Final = 2.0
_PARTING_SECONDS: Final = 20.0

_MOST_UNPACKED: Final = 4 << 30
"""The size of all that is in an archive."""

_MOST_FILES: Final = 200_000

_UNREADABLE: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""The errors of archives that are cut short, damaged, encrypted, or have two files of one name."""


def main(folder: Path) -> int:
    """Run what a folder says.

    Returns:
        The exit code.
    """
    task = JobTask.read(folder / TASK)
    storage = open_storage(task.storage, options=dict(task.storage_options))
    record = RunRecords(storage).get(task.run)
    if not record.claim_attempt(task.attempt, StartedProcess(JobProcess.present(), str(folder))):
        return SUPERSEDED
    configuration = Configuration.from_dict(dict(task.settings))
    watch = threading.Thread(target=_watch, args=(record, task.attempt), name="headrace-attempt", daemon=True)
    watch.start()
    keep_bounded([RotatedLog(folder / name) for name in (OUTPUT, LOG)], LogLimits.of(configuration))
    settings = {
        **task.settings,
        server_options.REST_BIND_ADDRESS.key: "127.0.0.1",
        server_options.REST_PORT.key: "0",
        server_options.REST_TOKEN_FILE.key: str(folder / TOKEN),
    }
    if not {options.LOG_LEVEL.key, options.LOG_FORMAT.key} & settings.keys():
        settings[options.LOG_LEVEL.key] = logging.getLevelName(logging.INFO)
    code, message = _run(task, settings, folder)
    record.end_attempt(task.attempt, AttemptEnd(_last_status(), code, message, millis()))
    return code


def _run(task: JobTask, settings: dict[str, str], folder: Path) -> tuple[int, str]:
    from headrace.cli.run import run_program
    from headrace.cli.sql.command import run_sql
    from headrace.client.submission import start_server

    program = Path(task.program)
    try:
        server = start_server(Configuration.from_dict(settings))
        write_file(folder / SERVER, [json.dumps({"address": server.address}).encode()], durable=False)
        if program.suffix == ".sql":
            return run_sql(program, None, settings, progress=True), ""
        return run_program(script_of(program, task.entry), task.arguments, settings, progress=True), ""
    except HeadraceError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1, str(error)


def plan(folder: Path) -> int:
    """Run a program up to its first job, and write the plan of that beside it.

    Returns:
        The exit code.
    """
    from headrace.cli.run import run_script
    from headrace.cli.sql.client import SqlClient, tables_with
    from headrace.client.running import GraphCaptured, capture_graphs
    from headrace.plan.plan_document import plan_to_document

    task = JobTask.read(folder / TASK)
    program = Path(task.program)
    with capture_graphs(task.settings) as captured, contextlib.redirect_stdout(sys.stderr):
        try:
            if program.suffix == ".sql":
                SqlClient(tables_with(task.settings), _say).run(program.read_text(), program.name)
            else:
                run_script(script_of(program, task.entry), task.arguments)
        except GraphCaptured:
            pass
        except HeadraceError as error:
            sys.stderr.write(f"{error}\n")
    if not captured:
        sys.stderr.write(f"{program.name} came to no job\n")
        return 1
    write_file(folder / PLAN, [json.dumps(plan_to_document(captured[0][1])).encode()], durable=False)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def script_of(program: Path, entry: str) -> Path:
    """The script of a program, unpacked where it is in an archive.

    Raises:
        ConfigurationError: when there is none.
    """
    return program if program.suffix == ".py" else _unpacked(program, entry)


def _unpacked(archive: Path, entry: str) -> Path:
    """Unpack an archive beside it, and find its script.

    Raises:
        ConfigurationError: when it is no archive, or has no such script.
    """
    target = archive.parent / "unpacked"
    try:
        with zipfile.ZipFile(archive) as opened:
            if sum(each.file_size for each in opened.infolist()) > _MOST_UNPACKED:
                raise ConfigurationError(f"{archive.name} has more than {_MOST_UNPACKED >> 30} GiB in it")
            if len(opened.infolist()) > _MOST_FILES:
                raise ConfigurationError(f"{archive.name} has more than {_MOST_FILES} files in it")
            opened.extractall(target)  # without leading slashes and dots; links are files with the place as their text
    except _UNREADABLE as error:
        raise ConfigurationError(f"{archive.name} cannot be unpacked: {error}") from None
    return _script_in(target, archive.name, entry)


def _script_in(folder: Path, archive: str, entry: str) -> Path:
    """The script that is named, or ``main.py``, or the only one."""
    found = folder / (entry or "main.py")
    scripts = list(folder.glob("*.py"))
    if not entry and not found.is_file() and len(scripts) == 1:
        return scripts[0]
    if found.is_file() and folder.resolve() in found.resolve().parents:
        return found
    missing = f"no {entry}" if entry else "no main.py, and not just one script beside it"
    raise ConfigurationError(f"{archive} has {missing}: name the script in it (entryClass)")


def _last_status() -> str:
    """The status of the job of this process; empty where there was none."""
    from headrace.server.server import jobs_of_process

    jobs = jobs_of_process()
    return jobs[-1].snapshot().status.name if jobs else ""


def _watch(record: RunRecord, attempt: int) -> None:
    """End when a later attempt was begun: another machine's dispatcher believes that this one is gone."""
    while True:
        time.sleep(_WATCH_SECONDS)
        try:
            if record.is_superseded(attempt):
                break
        except (OSError, HeadraceError) as error:
            logger.debug("whether another process takes the place of this one is not known: %s", error)
    logger.warning("another process takes the place of this one")
    for number in (signal.SIGTERM, signal.SIGTERM):
        os.kill(os.getpid(), number)
        time.sleep(_PARTING_SECONDS / 2)
    os._exit(SUPERSEDED)


if __name__ == "__main__":
    sys.exit((plan if "--plan" in sys.argv[2:] else main)(Path(sys.argv[1])))
