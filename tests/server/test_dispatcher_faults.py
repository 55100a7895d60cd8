"""Dispatchers that are killed or paused at each step: no job is lost or started twice, no process is left behind."""

from __future__ import annotations

import json
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.server.client import RestClient, RestClientError
from tests.server.clusters import DispatcherProcess, leader_of, processes_of
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

PROGRAM = """
import fcntl
import sys
from pathlib import Path
from headrace.common import Encoder, Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink, RollingPolicy

place, count = Path(sys.argv[1]), int(sys.argv[2])
held = (place / "lock").open("a")
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    told = "start"
except BlockingIOError:
    told = "another one runs"
with (place / "starts").open("a") as starts:
    starts.write(f"{told}\\n")
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda number: number, count, RateLimiterStrategy.per_second(200), Types.LONG())
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
rows = FileSink.for_row_format(str(place / "rows"), Encoder.simple_string_encoder())
rows = rows.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
numbers.map(str, Types.STRING()).uid("text").sink_to(rows).uid("rows")
env.execute("numbers")
"""

COUNT = 300
ENDLESS = 1_000_000
KILL, PAUSE = signal.SIGKILL, signal.SIGSTOP
SUBMIT = "cluster.records:RunRecord.submit"
BEGIN = "cluster.records:RunRecord.begin_attempt"
START = "cluster.processes:JobProcessHandle.start"
END = "cluster.records:RunRecord.end_attempt"
FINISH = "cluster.records:RunRecord.finish"
CANCEL = "cluster.records:RunRecord.cancel"
ASK = "cluster.remote_control:RemoteControl._triggered"


class Trial:
    """Dispatchers on one storage, a program and its job.

    Args:
        folder: where all of it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = folder / "cluster"
        self.place = folder / "out"
        self.place.mkdir()
        self.job = secrets.token_hex(16)
        self.dispatchers: list[DispatcherProcess] = []

    def dispatcher(self, *fault: str) -> RestClient:
        """Start a dispatcher, and wait until one leads that is younger than those before.

        Nobody waits long for one that is to die or to stand still.
        """
        before = generation_of(self.storage)
        self.dispatchers.append(DispatcherProcess(self.storage, *fault))
        wait_for(lambda: generation_of(self.storage) > before)
        found: RestClient = wait_for(lambda: leader_of(self.storage, 2.0 if fault else 60.0))
        return found

    def submit(self, client: RestClient, count: int) -> None:
        """Have the program run; a second time it is the same job."""
        program = self.folder / "job.py"
        program.write_text(PROGRAM)
        body = {"programArgsList": [str(self.place), str(count)], "jobId": self.job}
        client.ask("POST", ("jars", client.upload(program), "run"), body=body)

    def await_fault(self) -> None:
        """Wait until the last dispatcher is dead, or stands still."""
        last = self.dispatchers[-1]
        wait_for(lambda: last.process.poll() is not None or last.is_paused)

    def wake(self) -> None:
        """Have those that stand still go on."""
        for each in self.dispatchers:
            if each.process.poll() is None:
                each.process.send_signal(signal.SIGCONT)

    def wait_for(self, client: RestClient, status: str) -> None:
        """Wait for the job to have a status."""

        def has_it() -> bool:
            found = client.get("jobs", self.job, "status")["status"]
            assert found in {status, "CREATED", "RUNNING", "RESTARTING", "CANCELLING"}, found
            return bool(found == status)

        wait_for(has_it)

    def wait_for_rows(self) -> None:
        """Wait until the job has published something."""
        wait_for(self.rows)

    def rows(self) -> list[int]:
        """All that the job has published."""
        found: list[int] = []
        for folder, folders, files in os.walk(self.place / "rows"):
            folders[:] = [each for each in folders if not each.startswith(".")]
            for file in files:
                if not file.startswith("."):
                    found += map(int, Path(folder, file).read_text().split())
        return sorted(found)

    def starts(self) -> list[str]:
        """What each start of the program has said."""
        file = self.place / "starts"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def check_left(self) -> None:
        """No process of the job is left, and no two have run at the same time."""
        wait_for(lambda: processes_of(self.storage) == [])
        assert set(self.starts()) == {"start"}
        assert len(self.rows()) == len(set(self.rows()))


def generation_of(storage: Path) -> int:
    return max((int(file.stem) for file in (storage / "leader").glob("*.alive")), default=-1)


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(tmp_path)
    yield made
    for dispatcher in made.dispatchers:
        dispatcher.end()
    for process in processes_of(made.storage):
        os.kill(process, signal.SIGKILL)


def attempted(act: Callable[[], Any]) -> bool:
    """Do something that a dispatcher may not come to answer; tells whether it has."""
    try:
        act()
    except RestClientError:
        return False
    return True


STEPS_OF_A_START = [
    (SUBMIT, "before", KILL),
    (SUBMIT, "behind", KILL),
    (BEGIN, "before", KILL),
    (BEGIN, "behind", KILL),
    (START, "behind", KILL),
    (FINISH, "before", KILL),
    (FINISH, "behind", KILL),
    (SUBMIT, "behind", PAUSE),
    (BEGIN, "behind", PAUSE),
    (START, "behind", PAUSE),
    (FINISH, "before", PAUSE),
]


@pytest.mark.parametrize(("place", "when", "number"), STEPS_OF_A_START)
def test_a_job_is_started_once_and_runs_to_its_end(trial: Trial, place: str, when: str, number: int) -> None:
    first = trial.dispatcher(place, when, str(int(number)))
    is_told = attempted(lambda: trial.submit(first, COUNT))
    trial.await_fault()
    second = trial.dispatcher()
    trial.wake()
    if not is_told:
        trial.submit(second, COUNT)
    trial.wait_for(second, "FINISHED")
    assert trial.rows() == [*range(COUNT)]
    assert trial.starts() == ["start"]
    assert [line["jid"] for line in second.get("jobs", "overview")["jobs"]] == [trial.job]
    trial.check_left()


@pytest.mark.parametrize(
    ("place", "when", "number"),
    [(END, "before", KILL), (END, "behind", KILL), (BEGIN, "behind", KILL), (END, "behind", PAUSE)],
)
def test_a_process_that_dies_is_followed_by_one(trial: Trial, place: str, when: str, number: int) -> None:
    trial.submit(trial.dispatcher(), ENDLESS)
    trial.wait_for_rows()
    trial.dispatchers[0].end()
    trial.dispatcher(place, when, str(int(number)))
    [process] = processes_of(trial.storage)
    os.kill(process, signal.SIGKILL)
    trial.await_fault()
    before = len(trial.rows())
    third = trial.dispatcher()
    trial.wake()
    wait_for(lambda: len(trial.rows()) > before)
    assert trial.starts() == ["start", "start"]
    third.ask("PATCH", ("jobs", trial.job))
    trial.wait_for(third, "CANCELED")
    assert trial.rows() == [*range(len(trial.rows()))]
    trial.check_left()


@pytest.mark.parametrize(("when", "number"), [("before", KILL), ("behind", KILL), ("behind", PAUSE)])
def test_a_job_is_cancelled_if_its_client_was_told_so(trial: Trial, when: str, number: int) -> None:
    trial.submit(trial.dispatcher(), ENDLESS)
    trial.wait_for_rows()
    trial.dispatchers[0].end()
    second = trial.dispatcher(CANCEL, when, str(int(number)))
    is_told = attempted(lambda: second.ask("PATCH", ("jobs", trial.job)))
    trial.await_fault()
    third = trial.dispatcher()
    trial.wake()
    if not is_told and when == "before":
        third.ask("PATCH", ("jobs", trial.job))
    trial.wait_for(third, "CANCELED")
    assert trial.starts() == ["start"]
    trial.check_left()


@pytest.mark.parametrize(("when", "number"), [("before", KILL), ("behind", KILL), ("behind", PAUSE)])
def test_a_job_stops_with_a_savepoint_though_its_client_has_to_ask_again(trial: Trial, when: str, number: int) -> None:
    trial.submit(trial.dispatcher(), ENDLESS)
    trial.wait_for_rows()
    trial.dispatchers[0].end()
    second = trial.dispatcher(ASK, when, str(int(number)))
    wait_for(lambda: second.get("jobs", trial.job, "checkpoints")["latest"]["completed"])
    body = {"targetDirectory": str(trial.folder / "savepoints"), "drain": False, "formatType": "CANONICAL"}
    assert not attempted(lambda: second.ask("POST", ("jobs", trial.job, "stop"), body=body))
    trial.await_fault()
    third = trial.dispatcher()
    trial.wake()
    if when == "before":
        wait_for(lambda: third.get("jobs", trial.job, "checkpoints")["latest"]["completed"])
        asked = third.ask("POST", ("jobs", trial.job, "stop"), body=body)["request-id"]
        assert Path(third.outcome("jobs", trial.job, "savepoints", asked, timeout=PATIENCE)["location"]).is_dir()
    trial.wait_for(third, "FINISHED")
    assert len([*(trial.folder / "savepoints").iterdir()]) == 1
    latest = third.get("jobs", trial.job, "checkpoints")["latest"]["savepoint"]
    assert Path(latest["external_path"]).is_dir()
    assert trial.rows() == [*range(len(trial.rows()))]
    assert trial.starts() == ["start"]
    trial.check_left()


def test_what_a_job_has_left_says_how_it_went(trial: Trial) -> None:
    client = trial.dispatcher()
    trial.submit(client, COUNT)
    trial.wait_for(client, "FINISHED")
    [run] = (trial.storage / "jobs").iterdir()
    end = run / "end.json"
    wait_for(end.exists)
    assert json.loads(end.read_text())["status"] == "FINISHED"
    assert json.loads((trial.storage / "archives" / trial.job).read_text())["status"]["records"] == COUNT
