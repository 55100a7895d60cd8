"""Where the time of an epoch goes, finer than headrace itself tells: a look into the engine from outside."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections import defaultdict, deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from benchmarks.outcome import medians
from benchmarks.programs.headrace_job import EpochTimes

if TYPE_CHECKING:
    from headrace.jobmanager.events import EpochStatistics

_KEPT_QUERIES = 50


class _Probe(NamedTuple):
    """A method that is timed: where it is, and what it is called in the table."""

    module: str
    owner: str
    method: str
    phase: str


BUILD, RUN, MANIFEST, GARBAGE, COMMIT = (
    "running: building the query",
    "running: Spark's query",
    "checkpointing: manifest",
    "checkpointing: garbage",
    "(beside it) sinks' commit",
)

_PROBES = (
    _Probe("headrace.runtime.spark.runtime", "SparkRuntime", "_query", BUILD),
    _Probe("pyspark.sql.classic.dataframe", "DataFrame", "toArrow", RUN),
    _Probe("headrace.checkpoint.store", "CheckpointStore", "write", MANIFEST),
    _Probe("headrace.checkpoint.store", "CheckpointStore", "collect_garbage", GARBAGE),
    _Probe("headrace.jobmanager.sinks", "CommitCoordinator", "_commit", COMMIT),
)


class Phases(EpochTimes):
    """Times methods of the engine while the job runs; a method that the engine no longer has is left out."""

    def __init__(self) -> None:
        super().__init__()
        self._now: defaultdict[str, float] = defaultdict(float)
        self._queries: deque[Any] = deque(maxlen=_KEPT_QUERIES)
        self._undo: list[tuple[Any, str, Any]] = []
        self._catalyst: dict[str, float] = {}

    def __enter__(self) -> Self:
        for probe in _PROBES:
            owner = getattr(importlib.import_module(probe.module), probe.owner, None)
            method = getattr(owner, probe.method, None)
            if method is not None:
                self._undo.append((owner, probe.method, method))
                setattr(owner, probe.method, self._timed(method, probe.phase))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for owner, name, method in self._undo:
            setattr(owner, name, method)
        with contextlib.suppress(Exception):  # only worth a look; the session may be gone after a failure
            self._catalyst = medians([_catalyst_seconds(query) for query in self._queries])

    def parts_of(self, statistics: EpochStatistics) -> dict[str, float]:
        now, self._now = self._now, defaultdict(float)
        return {
            "planning": statistics.planning,
            BUILD: now[BUILD],
            RUN: now[RUN],
            "running: the rest": statistics.running - now[BUILD] - now[RUN],
            MANIFEST: now[MANIFEST],
            GARBAGE: now[GARBAGE],
            "checkpointing: the rest": statistics.checkpointing - now[MANIFEST] - now[GARBAGE],
            "waiting for sinks": statistics.waiting,
            COMMIT: now[COMMIT],
        }

    def summary(self) -> dict[str, Any]:
        return super().summary() | {"catalyst": self._catalyst}

    def _timed(self, method: Any, phase: str) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            result = method(*args, **kwargs)
            self._now[phase] += time.perf_counter() - started
            if phase == BUILD:
                self._queries.append(result)
            return result

        return timed


def _catalyst_seconds(query: Any) -> dict[str, float]:
    """What Spark says about the phases of planning a query."""
    phases = query._jdf.queryExecution().tracker().phases()
    found = {name: phases.get(name) for name in ("analysis", "optimization", "planning")}
    return {name: phase.get().durationMs() / 1000 for name, phase in found.items() if phase.isDefined()}
