"""Clients of a job's server, in a process of their own: ``python -m benchmarks.flood ADDRESS RATE KIND``.

They ask until their standard input ends, each over a connection of its own, and then say how often they were answered.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.memory import children_seconds

_CLIENTS = 4
_LOOK_SECONDS = 0.02
_JOB_SECONDS = 0.5
"""The time between two looks at which job runs."""
_ROOT = Path(__file__).resolve().parent.parent

_KINDS: Mapping[str, Sequence[tuple[str, Mapping[str, str]]]] = {
    "rest": [
        ("/v1/overview", {}),
        ("/v1/jobs/overview", {}),
        ("/v1/jobs/{job}", {}),
        ("/v1/jobs/{job}/checkpoints", {}),
        ("/v1/jobs/{job}/exceptions", {}),
        ("/v1/jobs/{job}/metrics?get=numRecordsIn", {}),
    ],
    "pages": [
        ("/dashboard", {"HX-Request": "true", "Accept-Encoding": "gzip"}),
        ("/dashboard/jobs/{job}", {"HX-Request": "true", "Accept-Encoding": "gzip"}),
    ],
}
"""What is asked for in turn, with the headers of a browser that refreshes its page."""

KINDS = tuple(_KINDS)


class FloodError(Exception):
    """The clients were not answered as often as they were to ask."""


@dataclass(slots=True)
class Flood:
    """What clients were answered.

    Attributes:
        answered: the number of answers.
        seconds: for how long they have asked.
        processor: the CPU time of the clients themselves.
    """

    answered: int = 0
    seconds: float = 0.0
    processor: float = 0.0


@contextmanager
def flood(address: str, rate: int, kind: str) -> Iterator[Flood]:
    """Inside, clients ask a server.

    Raises:
        FloodError: when an answer was no success, or they could not keep their rate.
    """
    command = [sys.executable, "-m", "benchmarks.flood", address, str(rate), kind]
    clients = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert clients.stdout is not None
    clients.stdout.readline()  # they are ready
    found = Flood()
    try:
        yield found
    finally:
        before = children_seconds()
        told, _ = clients.communicate()
        found.processor = children_seconds() - before
    answer = json.loads(told)
    statuses, found.seconds = answer["statuses"], answer["seconds"]
    found.answered = sum(statuses.values())
    if set(statuses) != {"200"} or found.answered < 0.9 * rate * found.seconds:
        raise FloodError(f"{kind}: {statuses} in {found.seconds:.1f} s, and {rate} in a second were to be asked for")


class _Clients:
    """Clients that ask for the job that runs, each over a connection of its own.

    Args:
        address: the address of the server.
        rate: the requests of all in a second.
        kind: what they ask for.
    """

    def __init__(self, address: str, rate: int, kind: str) -> None:
        self._host = urlsplit(address).netloc
        self._asks = _KINDS[kind]
        self._pause = _CLIENTS / rate
        self._ended = threading.Event()
        self._job = ""
        self._begun = 0.0
        self.statuses: Counter[int] = Counter()

    def ask(self) -> float:
        """Ask until the standard input ends; for how many seconds that was, from when there was a job."""
        threads = [threading.Thread(target=self._repeat, args=(number,)) for number in range(_CLIENTS)]
        threads.append(threading.Thread(target=self._follow_job))
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self._ended.set()
        for thread in threads:
            thread.join()
        return time.monotonic() - self._begun

    def _repeat(self, number: int) -> None:
        while not self._job and not self._ended.wait(_LOOK_SECONDS):
            pass
        start = self._begun + self._pause * number / _CLIENTS
        connection = http.client.HTTPConnection(self._host, timeout=30)
        due = start
        for path, headers in cycle(self._asks):
            if self._ended.wait(max(0.0, due - time.monotonic())):
                break
            due += self._pause
            connection.request("GET", path.format(job=self._job), headers=dict(headers))
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
        connection.close()

    def _follow_job(self) -> None:
        """Jobs run one after the other."""
        self._find_job()
        while not self._ended.wait(_JOB_SECONDS):
            self._find_job()

    def _find_job(self) -> None:
        """The last job that runs, as soon as there is one."""
        while not self._ended.wait(_LOOK_SECONDS):
            connection = http.client.HTTPConnection(self._host, timeout=30)
            connection.request("GET", "/v1/jobs/overview")
            jobs = json.loads(connection.getresponse().read())["jobs"]
            connection.close()
            running = [each["jid"] for each in jobs if each["state"] == "RUNNING"]
            if running:
                self._begun = self._begun or time.monotonic()
                self._job = running[-1]
                return


def main(address: str, rate: int, kind: str) -> None:
    """Ask until the standard input ends, and say what came back."""
    clients = _Clients(address, rate, kind)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    seconds = clients.ask()
    sys.stdout.write(json.dumps({"statuses": clients.statuses, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
