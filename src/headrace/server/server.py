"""The server of a process: a thread of its own, that jobs never wait for."""

import asyncio
import atexit
import contextlib
import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from headrace.common import server_options as options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.logs import KeptLog, get_logger
from headrace.server.application import application
from headrace.server.cluster.dispatcher import Dispatcher
from headrace.server.connections import BACKLOG, BoundedListener, BoundedProtocol, ServerLoop
from headrace.server.jobs import JobControl, ServedJob, ServedJobs
from headrace.server.local_servers import note
from headrace.server.operations import Operations
from headrace.server.requests import RestService
from headrace.server.settings import RestSettings

logger = get_logger(__name__)

_START_SECONDS: Final = 10.0

_PARTING_SECONDS: Final = 10.0
"""The time that a process that ends leaves clients to ask for the outcome of what they have triggered."""


@dataclass(frozen=True, slots=True)
class ServedContent:
    """The content of a server.

    Attributes:
        jobs: the jobs.
        dispatcher: what takes programs; None where nothing does.
        is_history: whether these are archives of jobs.
        most_upload_bytes: the size of the largest program.
        log: the log of this process; None where it is not kept.
    """

    jobs: ServedJobs
    dispatcher: Dispatcher | None = None
    is_history: bool = False
    most_upload_bytes: int = 0
    log: KeptLog | None = None


class RestServer:
    """Serves jobs at an address from its start to the end of the process.

    Args:
        settings: the address, and the rules of access.
        serves: gives what is served at an address; the jobs that are added when left out.

    Attributes:
        address: the address that users open.
    """

    def __init__(self, settings: RestSettings, serves: Callable[[str], ServedContent] | None = None) -> None:
        self.settings = settings
        self._socket = _bound(settings)
        self.address = settings.url(self._socket.getsockname()[1])
        content = ServedContent(ServedJobs()) if serves is None else serves(self.address)
        self._takes_programs = content.dispatcher is not None
        self._is_beside_jobs = serves is None
        self._service = RestService(
            settings,
            content.jobs,
            Operations(settings.store_seconds),
            settings.refresh_millis,
            self.address,
            content.dispatcher,
            content.is_history,
            content.most_upload_bytes,
            content.log,
        )
        self._server = uvicorn.Server(_config(application(self._service), settings))
        self._note: Path | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-rest", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        if self.settings.is_noted:
            self._note = note(self.address, self.settings.token_file, takes_programs=self._takes_programs)

    def add(self, control: JobControl, configuration: Configuration) -> None:
        """Serve a job from now on."""
        self._service.jobs.add(ServedJob(control, configuration))

    def jobs(self) -> list[ServedJob]:
        """The jobs that it serves."""
        return self._service.jobs.all()

    def end(self) -> None:
        """The process ends: wait until clients have the outcomes of what they triggered."""
        self._service.operations.wait_until_reported(_PARTING_SECONDS)
        self.close()

    def close(self) -> None:
        """Serve no more."""
        if self._note is not None:
            self._note.unlink(missing_ok=True)
        self._server.should_exit = True
        self._thread.join(1.0)
        self._service.operations.close()
        self._socket.close()

    def _run(self) -> None:
        if self._is_beside_jobs:
            _step_back()
        try:
            with asyncio.Runner(loop_factory=ServerLoop) as runner:
                runner.run(self._server.serve(sockets=[self._socket]))
        except Exception:
            logger.exception("the REST API is served no more; the job goes on")


_BESIDE_JOBS: Final = 10
"""The nice value that is added to that of a server beside jobs."""


def _step_back() -> None:
    """Have this thread take the time that tasks leave: whatever arrives, it does not interrupt one."""
    if sys.platform == "linux":  # elsewhere the whole process would be meant
        with contextlib.suppress(OSError):  # sandboxes refuse either, and the server serves all the same
            os.nice(_BESIDE_JOBS)
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def serve(app: ASGIApp, settings: RestSettings, started: Callable[[str], None]) -> None:
    """Serve something until Ctrl-C.

    Args:
        app: what to serve.
        settings: where.
        started: is called with the address.
    """
    bound = _bound(settings)
    with bound:
        started(settings.url(bound.getsockname()[1]))
        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            runner.run(uvicorn.Server(_config(app, settings)).serve(sockets=[bound]))


def _config(app: ASGIApp, settings: RestSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        http=BoundedProtocol,
        loop="asyncio",
        backlog=BACKLOG,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    if settings.tls is not None:
        config.load()
        config.ssl = settings.tls.context()
    return config


def _bound(settings: RestSettings) -> socket.socket:
    """A socket at the first port that is free.

    Raises:
        ConfigurationError: when none is, or there is no such address.
    """
    for port in settings.ports:
        try:
            return _listening(settings.bind_address, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ConfigurationError(
                    f"{options.REST_BIND_ADDRESS.key} = {settings.bind_address!r}, port {port}: {error}"
                ) from None
    ports = (
        f"port {settings.ports[0]}"
        if len(settings.ports) == 1
        else f"ports {settings.ports[0]} to {settings.ports[-1]}"
    )
    raise ConfigurationError(
        f"{ports} of {settings.bind_address} cannot be used, others have them: set {options.REST_BIND_PORT.key} to a "
        f"range, or {options.REST_PORT.key} to 0 for any free port"
    )


def _listening(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = min(found, key=lambda each: each[0] is not socket.AF_INET)  # as clients try it
    made = BoundedListener(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


_lock = threading.Lock()
_servers: list[RestServer] = []
"""The one of this process; none before the first job that needs it."""


def server_of_process(configuration: Configuration) -> RestServer:
    """The server of this process, which is started with the first job that wants one.

    Raises:
        ConfigurationError: when it cannot be started so.
    """
    settings = RestSettings.of(configuration)
    with _lock:
        if not _servers:
            server = RestServer(settings)
            server.start()
            atexit.register(server.end)
            _servers.append(server)
        elif _servers[0].settings != settings:
            logger.warning(
                "the jobs of this process are served at %s, as the first of them says: rest.* and "
                "security.ssl.rest.* of later ones have no effect",
                _servers[0].address,
            )
        return _servers[0]


def jobs_of_process() -> list[ServedJob]:
    """The jobs that the server of this process serves."""
    return _servers[0].jobs() if _servers else []
