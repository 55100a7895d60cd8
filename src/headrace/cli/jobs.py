"""``headrace list``, ``info``, ``stop`` and the like: commands to jobs, by servers or checkpoint directories."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from rich.text import Text

from headrace.cli.output import new_table, output
from headrace.cli.savepoint import JobInDirectory, place, tell
from headrace.cli.settings import SavepointKind
from headrace.common import options, wording
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.jobmanager.savepoints import EMPTY_PLACE
from headrace.server import archives
from headrace.server.client import RestClient, RestClientError
from headrace.server.dashboard.findings import Finding, findings
from headrace.server.dashboard.snapshot_view import job_view
from headrace.server.local_servers import known_servers
from headrace.server.settings import RestSettings

_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")

_ENDED: Final = ("FINISHED", "FAILED", "CANCELED", "SUSPENDED")
_RUNNING: Final = ("RUNNING", "RESTARTING")


class AddressedJob(Protocol):
    """A job that a command is about; each method returns the text of the outcome."""

    def savepoint(self, target: str | None, kind: SavepointKind | None) -> str:
        """Have it take a savepoint; returns where that is."""

    def stop(self, target: str | None, kind: SavepointKind | None, *, drains: bool) -> str:
        """Have it stop; returns where its savepoint is."""

    def cancel(self) -> str:
        """Have it give up."""

    def checkpoint(self) -> str:
        """Have it complete an epoch at once; returns the number."""

    def release(self) -> str:
        """Have it publish the epoch that it holds back; returns the number."""

    def rescale(self, parallelism: int) -> str:
        """Have it go on at another parallelism."""


def addressed_job(job: str | None, address: str | None, configuration: Configuration, timeout: float) -> AddressedJob:
    """The job that a command is about.

    Args:
        job: its id, or its checkpoint directory; None for the only one that there is.
        address: where it is served; None for somewhere on this machine.
        configuration: how servers and storages are reached.
        timeout: how many seconds it has.

    Raises:
        ConfigurationError: when a server is to have a job by its directory.
    """
    if job is None or _JOB_ID.fullmatch(job):
        return RestJob(job, address, configuration, timeout)
    if address is not None:
        raise ConfigurationError(
            f"{job!r} is no id of a job, which has 32 hexadecimal digits: with -m headrace list shows them"
        )
    return JobInDirectory(job, configuration, timeout)


@dataclass(frozen=True, slots=True)
class RestJob:
    """A job behind the server that shows it; attributes are the arguments of :func:`addressed_job`."""

    job: str | None
    address: str | None
    configuration: Configuration
    timeout: float

    def savepoint(self, target: str | None, kind: SavepointKind | None) -> str:
        body = {"target-directory": self._place(target), "cancel-job": False, "formatType": _format(kind)}
        return str(self._triggered("POST", "savepoints", "savepoints", body=body)["location"])

    def stop(self, target: str | None, kind: SavepointKind | None, *, drains: bool) -> str:
        body = {"targetDirectory": self._place(target), "drain": drains, "formatType": _format(kind)}
        return str(self._triggered("POST", "stop", "savepoints", body=body)["location"])

    def cancel(self) -> str:
        job = self._served()
        job.client.ask("PATCH", ("jobs", job.id), {"mode": "cancel"})
        return f"job {job.id} is being cancelled"

    def checkpoint(self) -> str:
        body = {"checkpointType": "CONFIGURED"}
        return str(self._triggered("POST", "checkpoints", "checkpoints", body=body)["checkpointId"])

    def release(self) -> str:
        job = self._served()
        return str(job.client.ask("POST", ("jobs", job.id, "held-epoch", "release"))["epoch"])

    def rescale(self, parallelism: int) -> str:
        self._triggered("PATCH", "rescaling", "rescaling", {"parallelism": parallelism})
        return f"the job goes on at parallelism {parallelism}"

    def _served(self) -> RemoteJob:
        return served_job(self.job, self.address, self.configuration)

    def _triggered(
        self, method: str, what: str, outcome: str, query: dict[str, object] | None = None, body: Any = None
    ) -> Any:
        """Ask a job for something, and wait for the outcome."""
        job = self._served()
        trigger = job.client.ask(method, ("jobs", job.id, what), query, body)["request-id"]
        held = job.client.get("jobs", job.id, "held-epoch")["epoch"]
        if held is not None:
            tell(f"waiting: epoch {held} is held back until headrace release publishes it; headrace info says why")
        return job.client.outcome("jobs", job.id, outcome, trigger, timeout=self.timeout)

    def _place(self, target: str | None) -> str | None:
        """Return where a savepoint is made, as the job finds it; None where the job's configuration says it."""
        if target is not None and not target.strip():
            raise ConfigurationError(EMPTY_PLACE)
        where = target or self.configuration.get(options.SAVEPOINT_DIR)
        return place(where) if where else None


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job, and a client of its server."""

    client: RestClient
    line: dict[str, Any]

    @property
    def id(self) -> str:
        """The id by which the server knows it."""
        return str(self.line["jid"])

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.line["state"] in _ENDED

    @property
    def status(self) -> str:
        """Its status, and the epoch that is held back, if one is."""
        state = str(self.line["state"])
        if state != "RUNNING":
            return state
        try:
            held = self.client.get("jobs", self.id, "held-epoch")["epoch"]
        except RestClientError:  # Flink's own servers hold no epochs
            return state
        return state if held is None else f"{state}, epoch {held} held"


def run_list(address: str | None, configuration: Configuration, *, running: bool, every: bool) -> None:
    """Print a line for each job.

    Args:
        address: where they are served; all servers on this machine when left out.
        configuration: how servers are reached.
        running: whether only those that run or restart are wanted.
        every: whether those that have ended are wanted, too.
    """
    jobs = _jobs(address, configuration)
    wanted = [job for job in jobs if (job.line["state"] in _RUNNING if running else every or not job.is_over)]
    console = output()
    if not wanted:
        console.print("no jobs" if not jobs else "no jobs run", highlight=False)
        return
    table = new_table("job", "name", "status", "since (UTC)", "served at")
    for job in wanted:
        since = datetime.fromtimestamp(job.line["start-time"] / 1000, UTC)
        cells = (job.id, job.line["name"], job.status, f"{since:%F %T}", job.client.address)
        table.add_row(*map(Text, cells))
    console.print(table)


def run_info(job: str | None, address: str | None, configuration: Configuration) -> None:
    """Print how a job fares, what stands out in it, and a line for each of its operators."""
    known = served_job(job, address, configuration)
    details = known.client.get("jobs", known.id)
    checkpoints = known.client.get("jobs", known.id, "checkpoints")
    latest = checkpoints["latest"]["completed"]
    console = output()
    console.print(_headline(details), soft_wrap=True)
    if latest is not None:
        summary = f"checkpoint {latest['id']}, {wording.size(latest['state_size'])} of state"
        where = f", {latest['external_path']}" if latest.get("external_path") else ""
        console.print(Text(f"{summary}{where}; {checkpoints['counts']['failed']} have failed"), soft_wrap=True)
    report = archives.of_document(known.client.get("jobs", known.id, "archive"))
    if report.waits_for:
        console.print(Text(f"it has not begun: {report.waits_for}"), soft_wrap=True)
    for finding in _findings(report):
        console.print(Text.assemble((finding.title, "bold"), f"\n  {finding.detail}"), soft_wrap=True)
    table = new_table("operator", "parallelism", "records in", "watermark (UTC)")
    for vertex in details["vertices"]:
        marks = known.client.get("jobs", known.id, "vertices", vertex["id"], "watermarks")
        lowest = min((int(each["value"]) for each in marks), default=None)
        mark = "-" if lowest is None else wording.watermark(lowest).removesuffix(" UTC")
        records = wording.number(vertex["metrics"]["read-records"])
        table.add_row(*map(Text, (vertex["name"], str(vertex["parallelism"]), records, mark)))
    console.print(table)


def _findings(report: archives.JobReport) -> list[Finding]:
    """Return what stands out in a job, as its page has it."""
    now = time.time_ns() // 1_000_000
    return findings(job_view(report.snapshot, report.configuration, now, report.at_work, report.waits_for))


def _headline(details: dict[str, Any]) -> Text:
    span = wording.span(details["duration"] / 1000)
    return Text.assemble("job ", (details["name"], "bold"), f" (job id {details['jid']}): {details['state']}, {span}")


_FOLLOW_SECONDS: Final = 1.0


def run_logs(
    job: str | None, address: str | None, configuration: Configuration, *, printed: bool, follow: bool
) -> None:
    """Print the log of a job of a dispatcher.

    Args:
        job: its id; the only one that runs when left out.
        address: where it is served; somewhere on this machine when left out.
        configuration: how servers are reached.
        printed: whether what it has printed is wanted in place of what it has logged.
        follow: whether to go on until the job has ended.
    """
    known = served_job(job, address, configuration)
    shown = ""
    while True:
        is_over = known.client.get("jobs", known.id, "status")["status"] in _ENDED
        text, shown = known.client.log("jobs", known.id, "logs", "stdout" if printed else "log", after=shown)
        sys.stdout.write(text)
        sys.stdout.flush()
        if is_over or not follow:
            return
        time.sleep(_FOLLOW_SECONDS)


def served_job(job: str | None, address: str | None, configuration: Configuration) -> RemoteJob:
    """A job that is served, by its id, or the only one that runs.

    Raises:
        RestClientError: when there is none, or more than one.
    """
    jobs = _jobs(address, configuration)
    found = (
        [each for each in jobs if each.id == job] if job is not None else [each for each in jobs if not each.is_over]
    )
    if len(found) == 1:
        return found[0]
    where = "on this machine" if address is None else f"at {address}"
    if job is not None:
        raise RestClientError(f"no job {job} is served {where}: headrace list --all shows those that are")
    if not found:
        raise RestClientError(
            f"no job that runs is served {where}: start it with headrace run --rest, or name its checkpoint directory"
        )
    listed = "\n".join(f"  {each.id}  {each.line['name']}" for each in found)
    raise RestClientError(f"{len(found)} jobs are served {where}: which of them?\n{listed}")


def run_dashboard(files: Path, address: str | None, configuration: Configuration, port: int) -> None:
    """Show jobs in Flink's own web UI.

    Args:
        files: the jar, or the folder, that it is in.
        address: where jobs are served; the only server on this machine when left out.
        configuration: how it is reached.
        port: where the UI is shown.
    """
    from headrace.server.flink_web import FlinkWeb, flink_web_application
    from headrace.server.server import serve

    clients = _clients(address, configuration)
    if len(clients) != 1:
        listed = "".join(f"\n  {client.address}" for client in clients)
        raise RestClientError(f"{len(clients)} servers of jobs are on this machine: name one with -m HOST:PORT{listed}")
    settings = RestSettings("localhost", (port,))
    page = flink_web_application(FlinkWeb(files), clients[0], settings)
    serve(page, settings, lambda url: _print(f"Flink's web UI of {clients[0].address} at {url}; Ctrl-C ends it"))


def _jobs(address: str | None, configuration: Configuration) -> list[RemoteJob]:
    found: list[RemoteJob] = []
    for client in _clients(address, configuration):
        try:
            lines = client.get("jobs", "overview")["jobs"]
        except RestClientError:
            if address is not None:
                raise
            continue  # a process on this machine that is just ending
        found.extend(RemoteJob(client, line) for line in lines)
    return found


def _clients(address: str | None, configuration: Configuration) -> list[RestClient]:
    if address is not None:
        return [RestClient.at(address, configuration)]
    return [RestClient.at(each.address, configuration, each.token_file) for each in known_servers()]


def _format(kind: SavepointKind | None) -> str:
    return (kind or "canonical").upper()


def _print(text: str) -> None:
    output().print(Text(text), soft_wrap=True)
