"""``headrace cluster``: a dispatcher on this machine: run, started in the background, stopped, or shown."""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from headrace.cli.output import new_table, output
from headrace.cli.savepoint import place
from headrace.cli.settings import PropertiesFile, job_settings, with_rest
from headrace.common import options, server_options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InfrastructureError
from headrace.common.logs import LogSettings
from headrace.server.client import RestClient, RestClientError
from headrace.server.local_servers import LocalServer, known_servers

if TYPE_CHECKING:
    from headrace.server.cluster.service import ClusterService
    from headrace.table.environment.dispatcher_schedules import DispatcherSchedules

_START_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.1

_HOME: Final = Path.home() / ".headrace" / "cluster"
"""The default folder of a cluster."""

cluster_app = typer.Typer(
    help="A dispatcher: accepts programs, runs each as a process of its own, and shows all of their jobs.",
    no_args_is_help=True,
)

Storage = Annotated[
    str | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Where programs, jobs, logs and archives are kept, a path or a URI; ~/.headrace/cluster when left out.",
    ),
]
Rest = Annotated[
    str,
    typer.Option(
        "--rest", metavar="HOST:PORT", help="Where it is served; the first free port from 8081 on when left out."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(help="The master of the Spark sessions of its jobs, such as local[4] or spark://host:7077."),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option("-D", metavar="KEY=VALUE", help="A setting of the dispatcher, or of all of its jobs."),
]
CatalogStore = Annotated[
    str | None,
    typer.Option(
        "--catalog-store",
        metavar="DIR",
        help="The catalog store of sessions, whose materialized tables it refreshes as a whole when they are due.",
    ),
]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long it has to stop its jobs.")]


def _settings(
    storage: str | None,
    rest: str,
    master: str | None,
    store: str | None,
    define: list[str] | None,
    properties_file: Path | None,
) -> dict[str, str]:
    named = {
        server_options.CLUSTER_DIR.key: storage,
        options.SPARK_MASTER.key: master,
        server_options.CLUSTER_CATALOG_STORE.key: store,
    }
    settings = with_rest(job_settings(define, properties_file, named), rest)
    settings.setdefault(server_options.CLUSTER_DIR.key, str(_HOME))
    return settings


@cluster_app.command()
def run(
    storage: Storage = None,
    rest: Rest = "",
    master: Master = None,
    catalog_store: CatalogStore = None,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
    log: Annotated[Path | None, typer.Option(hidden=True, help="The file that its output goes to.")] = None,
) -> None:
    """Run a dispatcher until Ctrl-C or SIGTERM, which stop its jobs at the end of their epochs."""
    from headrace.server.cluster.service import ClusterService
    from headrace.server.rotated_log import LogLimits, RotatedLog, keep_bounded

    configuration = Configuration.from_dict(_settings(storage, rest, master, catalog_store, define, properties_file))
    _configure_logging(configuration)
    if log is not None:
        keep_bounded([RotatedLog(log)], LogLimits.of(configuration))
    service = ClusterService(configuration)
    ended = _end_at_signals()
    schedules = _dispatcher_schedules(configuration, service)
    service.start()
    if schedules is not None:
        schedules.start()
    _print(f"dispatcher at {service.address}, its storage is {configuration.get(server_options.CLUSTER_DIR)}")
    _wait(ended)
    if schedules is not None:
        schedules.stop()
    service.stop()


def _dispatcher_schedules(configuration: Configuration, service: "ClusterService") -> "DispatcherSchedules | None":
    """The keeper of schedules that programs leave to the dispatcher; None where it has no catalog store."""
    if configuration.get(server_options.CLUSTER_CATALOG_STORE) is None:
        return None
    from headrace.table.environment.dispatcher_schedules import DispatcherSchedules

    return DispatcherSchedules(configuration, service.address, lambda: service.dispatcher.leads)


def run_history_server(configuration: Configuration) -> None:
    """Serve the archives of jobs until Ctrl-C or SIGTERM."""
    from headrace.server.history import ArchivedJobs, history_settings
    from headrace.server.server import RestServer, ServedContent
    from headrace.server.settings import RestSettings

    _configure_logging(configuration)
    jobs = ArchivedJobs(configuration)
    server = RestServer(
        replace(RestSettings.of(history_settings(configuration)), is_noted=False),
        lambda address: ServedContent(jobs, is_history=True),
    )
    ended = _end_at_signals()
    jobs.start()
    server.start()
    _print(f"history of {len(jobs.all())} jobs at {server.address}")
    _wait(ended)
    jobs.stop()
    server.close()


def _configure_logging(configuration: Configuration) -> None:
    """Log at INFO where the configuration says nothing: a service has no other way to tell."""
    settings = LogSettings.of(configuration)
    (LogSettings("INFO") if settings == LogSettings() else settings).apply()


def _end_at_signals() -> threading.Event:
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return ended


def _wait(ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):  # a signal that another thread gets does not wake it
        pass


@cluster_app.command()
def start(
    storage: Storage = None,
    rest: Rest = "",
    master: Master = None,
    catalog_store: CatalogStore = None,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Start a dispatcher in the background, and print where it is served."""
    settings = _settings(storage, rest, master, catalog_store, define, properties_file)
    place = settings[server_options.CLUSTER_DIR.key]
    log = _log_file(Configuration.from_dict(settings))
    command = [sys.executable, "-m", "headrace", "cluster", "run", "--dir", place, "--rest", rest, "--log", str(log)]
    command += ["--master", master] if master else []
    command += ["--catalog-store", catalog_store] if catalog_store else []
    command += [part for each in define or () for part in ("-D", each)]
    command += ["--properties-file", str(properties_file.absolute())] if properties_file else []
    with log.open("ab") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True
        )
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        found = next((each for each in _dispatchers() if each.process.pid == process.pid), None)
        if found is not None:
            _print(f"dispatcher at {found.address} (process {process.pid}), its log is {log}")
            return
        time.sleep(_LOOK_SECONDS)
    process.kill()
    end = log.read_text(errors="replace")[-2_000:].strip()
    raise InfrastructureError(f"the dispatcher has not started; its log {log} ends:\n{end}")


def _log_file(configuration: Configuration) -> Path:
    from headrace.server.rotated_log import LogLimits, remove_oldest

    folder = Path.home() / ".headrace" / "log"
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    remove_oldest(folder.glob("cluster-*.log"), LogLimits.of(configuration).most_files)
    return folder / f"cluster-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


@cluster_app.command()
def stop(timeout: Timeout = 120.0) -> None:
    """Stop the dispatchers of this user on this machine, and their jobs at the end of their epochs."""
    found = _dispatchers()
    if not found:
        raise RestClientError("no dispatcher runs on this machine")
    for each in found:
        os.kill(each.process.pid, signal.SIGTERM)
    until = time.monotonic() + timeout
    for each in found:
        while not each.process.is_gone:
            if time.monotonic() >= until:
                raise InfrastructureError(f"the dispatcher at {each.address} has not stopped within {timeout:g} s")
            time.sleep(_LOOK_SECONDS)
        _print(f"the dispatcher at {each.address} has stopped; the next one goes on with its jobs")


@cluster_app.command()
def status(define: Definitions = None, properties_file: PropertiesFile = None) -> None:
    """Show the dispatchers of this user on this machine; ends with 1 where there is none."""
    configuration = Configuration.from_dict(job_settings(define, properties_file))
    table = new_table("dispatcher", "process", "status", "jobs that run")
    found = _dispatchers()
    for each in found:
        client = RestClient.at(each.address, configuration, each.token_file)
        table.add_row(*map(Text, (each.address, str(each.process.pid), *_fares(client))))
    if not found:
        _print("no dispatcher runs on this machine")
        raise typer.Exit(1)
    output().print(table)


def _fares(client: RestClient) -> tuple[str, str]:
    try:
        return "leads", str(client.get("overview")["jobs-running"])
    except RestClientError as error:
        return ("stands by" if "stands by" in str(error) else str(error)), "-"


def _dispatchers() -> list[LocalServer]:
    return [each for each in known_servers() if each.takes_programs]


def the_dispatcher(address: str | None, configuration: Configuration) -> RestClient:
    """The client of a dispatcher: the one at an address, or the only one that leads on this machine.

    Raises:
        ConfigurationError: when there is none, or more than one.
    """
    if address is not None:
        return RestClient.at(address, configuration)
    clients = [RestClient.at(each.address, configuration, each.token_file) for each in _dispatchers()]
    leading = [client for client in clients if _fares(client)[0] == "leads"]
    if len(leading) != 1:
        addresses = "".join(f"\n  {client.address}" for client in leading)
        raise ConfigurationError(
            f"{len(leading)} dispatchers lead on this machine: start one with headrace cluster start, or name it with "
            f"-m HOST:PORT{addresses}"
        )
    return leading[0]


def _print(text: str) -> None:
    output().print(Text(text), soft_wrap=True)


def submit_program(
    program: Path, arguments: Sequence[str], settings: Mapping[str, str], address: str | None, entry: str = ""
) -> None:
    """Have a dispatcher run a program, and print the id of its job.

    Args:
        program: the script, archive or statements.
        arguments: its arguments.
        settings: its configuration; what says how the dispatcher is reached is not given to the job.
        address: where the dispatcher is; the only one on this machine when left out.
        entry: the script in an archive.
    """
    configuration = Configuration.from_dict(dict(settings))
    client = replace(the_dispatcher(address, configuration), seconds=_PATIENCE_SECONDS)
    uploaded = client.upload(program)
    body = {
        "programArgsList": list(arguments),
        "flinkConfiguration": {
            key: place(value) if key in _PLACES else value
            for key, value in settings.items()
            if not key.startswith(_OWN)
        },
        "jobId": None if options.CHECKPOINT_DIR.key in settings else secrets.token_hex(16),
        "entryClass": entry,
    }
    try:
        job = client.ask("POST", ("jars", uploaded, "run"), body=body)["jobid"]
    finally:
        client.ask("DELETE", ("jars", uploaded))
    output().print(Text(f"job {job} was submitted to {client.address}"), soft_wrap=True)


_PATIENCE_SECONDS: Final = 30.0
"""The time limit of a request: a program is written to the storage of the dispatcher before that answers."""

_OWN: Final = ("rest.", "security.ssl.")
_PLACES: Final = (options.CHECKPOINT_DIR.key, options.RECOVERY_PATH.key, options.SAVEPOINT_DIR.key)
"""Relative paths are those of the process that submits the program."""
