"""Keyed state that is larger than the memory of the workers, in headrace.

Options: ``settings`` (of the job: its state backend), ``limit_mib`` (of memory that no file backs, for each process of
Python but the driver; the kernel holds them to it), ``savepoint_after`` (records, after which the job is stopped with a
canonical savepoint, and another one goes on from there; 0 for none).
"""

from __future__ import annotations

import contextlib
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psutil

from benchmarks.memory import DAEMON, MIB, WORKER, processes_by_role
from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files
from benchmarks.programs.headrace_process import CHECKS, RESULT
from benchmarks.truth import SAMPLE
from headrace.client.running import submission_defaults
from headrace.common import Row, Types
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.jobmanager.events import EpochStatistics, JobStart

_INTERVAL_SECONDS = 0.1
_PARTS = 10
"""Of how many parts of the run the memory is told."""


class NotedCountAndSum(KeyedProcessFunction):
    """Counts and sums the values of each key, and keeps a note of 80 characters; emits as ``CountAndSum`` does."""

    def open(self, runtime_context: RuntimeContext) -> None:
        totals = Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.STRING()])
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", totals))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row] | None:
        count, total, _ = self.totals.value() or (0, 0.0, "")
        count += 1
        total += value[2]
        key = value[0]
        self.totals.update((count, total, f"{key:080d}"))
        return None if key % SAMPLE else iter((Row(key, count, total),))


class MemoryOfWorkers(EpochTimes):
    """Limits the memory of the workers as soon as they are there, and looks at it all the time.

    Args:
        limit: bytes that no file backs, for each of them.

    Attributes:
        samples: when it was looked, and the bytes of the largest worker that no file backs.
        state_bytes: how large the state was at last.
        records: how many records were read.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.samples: list[tuple[float, int]] = []
        self.state_bytes = 0
        self.records = 0
        self._limit = limit
        self._limited: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory", daemon=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def job_started(self, start: JobStart) -> None:
        super().job_started(start)
        self._thread.start()

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        super().epoch_completed(statistics)
        self.state_bytes = statistics.state_bytes
        self.records += statistics.records

    def peak(self, after: float = 0.0) -> int:
        """The most MiB, or the most since a moment."""
        return max((size for when, size in self.samples if when >= after), default=0) // MIB

    def peaks(self) -> list[int]:
        """The most MiB in each tenth of the run."""
        began, ended = self.samples[0][0], self.samples[-1][0]
        parts = [0] * _PARTS
        for when, size in self.samples:
            part = min(_PARTS - 1, int((when - began) / (ended - began) * _PARTS))
            parts[part] = max(parts[part], size // MIB)
        return parts

    def _look(self) -> None:
        while not self._stop.wait(_INTERVAL_SECONDS):
            found = [(role, process.pid) for role, process in processes_by_role(psutil.Process())]
            for pid in {pid for role, pid in found if role in (DAEMON, WORKER)} - self._limited:
                with contextlib.suppress(ProcessLookupError):  # what the daemon forks inherits it
                    resource.prlimit(pid, resource.RLIMIT_DATA, (self._limit, self._limit))
                self._limited.add(pid)
            sizes = [anonymous(pid) for role, pid in found if role == WORKER]
            self.samples.append((time.monotonic(), max(sizes, default=0)))


def anonymous(pid: int) -> int:
    """The bytes in memory of a process that no file backs; none when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    sink, memory = CountingSink(CHECKS), _memory(assignment)
    upto = assignment.options.get("savepoint_after", 0)
    with memory:
        client = _start(assignment, sink, memory, "job", {})
        if upto:
            return _by_a_savepoint(assignment, sink, memory, client)
        client.get_job_execution_result().result()
    told: dict[str, Any] = {"anonymous MiB": memory.peaks(), "state MiB": memory.state_bytes // MIB}
    return Outcome(tuple(memory.epochs), sink.totals, memory.summary() | told)


def _by_a_savepoint(assignment: Assignment, sink: CountingSink, before: MemoryOfWorkers, client: JobClient) -> Outcome:
    """Stop the job with a savepoint, and run the rest from there; both add to the totals."""
    _wait(client, lambda: before.records >= assignment.options["savepoint_after"])
    asked = time.monotonic()
    savepoint = client.stop_with_savepoint(False, str(assignment.work / "savepoints")).result()
    complete, peak = time.monotonic(), before.peak(asked)
    with _memory(assignment) as after:
        client = _start(assignment, sink, after, "again", {"execution.state-recovery.path": savepoint})
        _wait(client, lambda: bool(after.epochs))
        first, peak_of_start = time.monotonic(), after.peak()
        client.get_job_execution_result().result()
    told: dict[str, Any] = {
        "stop with it": {"seconds": complete - asked, "anonymous MiB": peak},
        "start from it": {"seconds": first - complete, "anonymous MiB": peak_of_start},
    }
    return Outcome((*before.epochs, *after.epochs), sink.totals, after.summary() | told)


def _wait(client: JobClient, is_there: Callable[[], bool]) -> None:
    """Wait for something that epochs bring about, or for the end of the job."""
    ended = client.get_job_execution_result()
    while not is_there() and not ended.done():
        time.sleep(_INTERVAL_SECONDS)


def _memory(assignment: Assignment) -> MemoryOfWorkers:
    return MemoryOfWorkers(assignment.options["limit_mib"] * MIB)


def _start(
    assignment: Assignment, sink: CountingSink, listener: EpochTimes, name: str, settings: Mapping[str, str]
) -> JobClient:
    """Start the job with a checkpoint directory of its own."""
    environment = open_environment(assignment)
    (
        read_files(environment, assignment, WatermarkStrategy.no_watermarks())
        .key_by("key")
        .process(NotedCountAndSum(), output_type=RESULT)
        .uid("totals")
        .sink_to(sink)
    )
    own = {"execution.checkpointing.dir": str(assignment.work / name)}
    with submission_defaults({**own, **settings}, listener):
        return environment.execute_async("large state")
