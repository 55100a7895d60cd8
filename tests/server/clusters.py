"""Dispatchers of this process, and programs for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common import Configuration
from headrace.common import server_options as options
from headrace.server.client import RestClient, RestClientError
from headrace.server.cluster.service import ClusterService
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import sys
from headrace.common import Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment

count = int(sys.argv[1]) if len(sys.argv) > 1 else None
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda number: number, count, RateLimiterStrategy.per_second(500), Types.LONG())
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
sums = numbers.key_by(lambda number: number % 10, Types.LONG()).reduce(lambda one, other: one + other).uid("sum")
sums.filter(lambda total: False).name("none").uid("none").print().uid("print")
env.execute("numbers job")
"""

SETTINGS = {
    "headrace.runtime": "local",
    "parallelism.default": "1",
    "headrace.cluster.lease-duration": "2 s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "100 ms",
    "restart-strategy.fixed-delay.attempts": "3",
    "rest.port": "0",
    "rest.bind-address": "127.0.0.1",
}


class Cluster:
    """A dispatcher, and what asks it.

    Args:
        storage: its storage.
        settings: what it is told besides.
    """

    def __init__(self, storage: Path, **settings: str) -> None:
        given = SETTINGS | {"high-availability.storageDir": str(storage)} | settings
        self.storage = storage
        self.service = ClusterService(Configuration.from_dict(given))
        self.service.start()
        token = given.get(options.REST_TOKEN_FILE.key)
        shown = None if token is None else Path(token).read_text().strip()
        self.rest = RestClient(self.service.address, shown, seconds=60.0)

    def upload(self, text: str = PROGRAM, name: str = "job.py") -> str:
        """Upload a program; gives its id."""
        file = self.storage.parent / name
        file.write_text(text)
        return self.rest.upload(file)

    def run(self, text: str = PROGRAM, name: str = "job.py", **body: Any) -> str:
        """Have a program run; gives the id of its job."""
        return str(self.rest.ask("POST", ("jars", self.upload(text, name), "run"), body=body)["jobid"])

    def status(self, job: str) -> str:
        """How a job fares."""
        return str(self.rest.get("jobs", job, "status")["status"])

    def wait_for(self, job: str, *statuses: str) -> str:
        """Wait for a job to have one of some statuses."""
        return str(wait_for(lambda: found if (found := self.status(job)) in statuses else None))

    def epochs(self, job: str) -> int:
        """The number of the last epoch that the dispatcher knows of."""
        latest = self.rest.get("jobs", job, "checkpoints")["latest"]["completed"]
        return 0 if latest is None else int(latest["id"])


class DispatcherProcess:
    """A dispatcher in a process of its own, found by what it says on the storage.

    Args:
        storage: its storage.
        fault: where it kills or pauses itself, as ``tests.server.faulty_dispatcher`` has it.
    """

    def __init__(self, storage: Path, *fault: str) -> None:
        self.storage = storage
        command = [sys.executable, "-m", "tests.server.faulty_dispatcher", str(storage), *fault]
        self.process = subprocess.Popen(command, cwd=Path(__file__).parents[2])

    @property
    def is_paused(self) -> bool:
        """Whether it stands still."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def end(self) -> None:
        """End it, whatever it is at, and leave its jobs alone."""
        self.process.kill()
        self.process.wait()


def leader_of(storage: Path, seconds: float) -> RestClient | None:
    """What asks the dispatcher that leads, for so long each time, if one does and says so."""
    signs = sorted((storage / "leader").glob("*.alive"), key=lambda path: int(path.stem))
    if not signs:
        return None
    address = json.loads(signs[-1].read_text())["address"]
    try:
        RestClient(address, seconds=2.0).get("overview")
    except RestClientError:
        return None
    return RestClient(address, seconds=seconds)


def processes_of(storage: Path) -> list[int]:
    """The processes of this machine that work for a cluster."""
    return list(_processes(str(storage)))


def _processes(storage: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if (
                    b"headrace.cli.job_process" in command
                    and storage
                    in Path(
                        os.fsdecode(command[command.index(b"headrace.cli.job_process") + 1]), "task.json"
                    ).read_text()
                ):
                    yield int(entry.name)
            except (OSError, ValueError):  # it has just gone
                continue
