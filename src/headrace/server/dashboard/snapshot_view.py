"""The view of a job that runs, or has run, in this process: made of the snapshot of its status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import headrace
from headrace.common import options
from headrace.common.configuration import Configuration, masked
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.job_execution_result import JobFailure
from headrace.common.masking import without_secrets
from headrace.jobmanager.events import EpochStatistics, SavepointStatus
from headrace.jobmanager.metrics import MetricKey, SplitProgress
from headrace.jobmanager.status import HistoryPoint, JobSnapshot
from headrace.metrics.registry import (
    BACK_PRESSURED_RATE,
    BUSY_RATE,
    IDLE_RATE,
    INPUT_WATERMARK,
    LATE_DROPPED,
    RECORDS_IN,
    RECORDS_IN_ERRORS,
    RECORDS_IN_RATE,
    RECORDS_OUT,
    RECORDS_OUT_RATE,
    SEND_ERRORS,
    VIOLATIONS,
)
from headrace.plan.explain import plan_diagram
from headrace.plan.job_plan import JobPlan, PlannedOperator
from headrace.server.dashboard.job_view import (
    ArrowView,
    BoxView,
    EpochView,
    FailureView,
    FrameView,
    GraphView,
    JobView,
    OperatorView,
    ResumptionView,
    SavepointView,
    SeriesView,
    SplitView,
    StateView,
    StatusView,
    SubtaskView,
    TrendView,
)

_GROWTH_MILLIS: Final = 600_000
"""The time over which the growth of state is a mean."""

_LEAST_GROWTH_MILLIS: Final = 10_000

_MOST_SERIES: Final = 8
"""The largest number of lines in a chart; of more those that matter most are drawn."""

_MOST_STATES: Final = 200
_MOST_SPLITS: Final = 200
_LONGEST_MESSAGE: Final = 20_000

_RATE_MILLIS: Final = 60_000

_KINDS: Final[Mapping[str, str]] = {
    "state": "keyed",
    "namespaced": "keyed by window",
    "timers": "timers",
    "list": "operator list",
    "union": "union list",
    "broadcast": "broadcast",
}
"""By the prefix of a store, what kind of state it holds."""


def job_view(
    job: JobSnapshot, configuration: Configuration, now: int, at_work: tuple[str, ...] = (), waits_for: str = ""
) -> JobView:
    """All that pages show of a job.

    Args:
        job: what is known of it.
        configuration: what it was submitted with.
        now: the time, in milliseconds since 1970.
        at_work: the lines of the program that are at work, where an epoch takes long.
        waits_for: what it waits for before it begins; empty when it has begun.
    """
    latest, start, end, plan = job.latest, job.start, job.end, job.plan
    last = job.history[-1].time if job.status.is_terminal_state() else now
    error = None if end is None else end.error
    measured = _Measured(job, last)
    return JobView(
        id=job.job_id,
        name=job.name,
        now=now,
        clock=last if latest is None else max(last, latest.processing_time),
        history=tuple(StatusView(change.status.name, change.time) for change in job.history),
        mode="" if plan is None else "BATCH" if plan.settings.is_batch else "STREAMING",
        parallelism=0 if plan is None else plan.settings.parallelism,
        max_parallelism=0 if plan is None else plan.settings.max_parallelism,
        runtime="" if job.runtime is None else job.runtime.what,
        web_url="" if job.runtime is None else job.runtime.web_url,
        version=headrace.__version__,
        generation=0 if start is None else start.generation,
        restored_epoch=None if start is None else start.restored_epoch,
        savepoint="" if start is None else start.savepoint,
        stopped_with="" if end is None else end.savepoint,
        end="" if end is None else str(end),
        error="" if error is None else without_secrets(f"{type(error).__name__}: {error}")[:_LONGEST_MESSAGE],
        checkpoint_directory=configuration.get(options.CHECKPOINT_DIR) or "",
        savepoint_directory=configuration.get(options.SAVEPOINT_DIR) or "",
        interval=configuration.get(options.CHECKPOINT_INTERVAL) or configuration.get(options.EPOCH_TARGET_DURATION),
        completed=job.completed,
        failed=job.failed,
        restarts=job.restarts,
        rescales=job.rescales,
        records=job.records,
        rate=_recent_rate(job.points(), last),
        watermark=None if latest is None else latest.watermark,
        pending_records=None if latest is None else latest.pending_records,
        is_processing_backlog=latest is not None and latest.is_processing_backlog,
        state_bytes=0 if latest is None else latest.state_bytes,
        running_epoch=None if job.running is None else job.running.epoch,
        running_since=0 if job.running is None else job.running.time,
        at_work=at_work,
        waits_for=waits_for,
        held_epoch=None if job.held is None else job.held.epoch,
        held_for=() if job.held is None else tuple(job.held.violations.values()),
        retry_in=None if job.failure is None else job.failure.retry_in,
        epochs=tuple(map(epoch_view, job.epochs)),
        operators=() if plan is None else tuple(map(measured.operator, plan.operators())),
        splits=tuple(_splits(job))[:_MOST_SPLITS],
        states=tuple(_states(job))[:_MOST_STATES],
        savepoints=tuple(map(_savepoint, job.savepoints)),
        resumptions=tuple(ResumptionView(r.time, r.epoch, r.is_rescaled, r.parallelism) for r in job.resumptions),
        failures=tuple(map(_failure, reversed(job.failures))),
        trend=_trend(job, plan),
        graph=None if plan is None else _graph(plan),
        configuration=dict(sorted(masked(configuration.to_dict()).items())),
    )


def epoch_view(epoch: EpochStatistics) -> EpochView:
    """An epoch that is complete."""
    parts = epoch.parts
    return EpochView(
        number=epoch.epoch,
        ended=epoch.ended,
        records=epoch.records,
        planning=epoch.planning,
        reading=0.0 if parts is None else parts.reading,
        shuffling=0.0 if parts is None else parts.shuffling,
        operating=epoch.running if parts is None else parts.operating,
        checkpointing=epoch.checkpointing,
        committing=epoch.waiting,
        is_measured=parts is not None,
        watermark=epoch.watermark,
        state_bytes=epoch.state_bytes,
        pending_commits=epoch.pending_commits,
    )


class _Measured:
    """The measurements of operators and their subtasks."""

    def __init__(self, job: JobSnapshot, now: int) -> None:
        self._latest = job.latest
        self._numbers = job.workload.metrics(now)
        # Rates are over a minute, as Flink has them; of a run that is younger they are over its time.
        begun = job.workload.readings[0].time if job.workload.readings else now
        self._young = max(1.0, _RATE_MILLIS / max(1_000, now - begun))
        event_time = None if job.latest is None else job.latest.event_time
        self._watermarks = {} if event_time is None else event_time.of_operators()
        self._counters = {} if job.latest is None else job.latest.operator_counters
        self._pending = {} if job.latest is None else job.latest.pending

    def operator(self, planned: PlannedOperator) -> OperatorView:
        """One operator."""
        uid, node = planned.uid, planned.node
        return OperatorView(
            node=node.id,
            uid=uid,
            has_explicit_uid=planned.has_explicit_uid,
            name=node.name,
            role=node.role,
            stage=planned.stage,
            parallelism=planned.parallelism,
            call_site=str(node.call_site),
            busy=self._share(uid, BUSY_RATE),
            idle=self._share(uid, IDLE_RATE),
            back_pressured=self._share(uid, BACK_PRESSURED_RATE),
            records_in=self._total(uid, RECORDS_IN),
            records_out=self._total(uid, RECORDS_OUT),
            rate_in=self._rate(uid, RECORDS_IN_RATE),
            rate_out=self._rate(uid, RECORDS_OUT_RATE),
            late=self._total(uid, LATE_DROPPED),
            unreadable=self._total(uid, RECORDS_IN_ERRORS),
            unwritable=self._total(uid, SEND_ERRORS),
            violations=self._total(uid, VIOLATIONS),
            watermark=self._watermarks.get(MetricKey(uid, None, INPUT_WATERMARK)),
            pending_commits=self._pending.get(uid, 0) if node.is_sink else None,
            subtasks=tuple(self._subtask(uid, number) for number in range(planned.parallelism)),
        )

    def _subtask(self, uid: str, number: int) -> SubtaskView:
        totals = self._counters.get(uid, {}).get(RECORDS_IN, ())
        sizes = {} if self._latest is None else self._latest.state_sizes.get(uid, {})
        return SubtaskView(
            number=number,
            busy=self._share(uid, BUSY_RATE, number) or 0.0,
            idle=self._share(uid, IDLE_RATE, number) or 0.0,
            back_pressured=self._share(uid, BACK_PRESSURED_RATE, number) or 0.0,
            records_in=totals[number] if number < len(totals) else 0,
            rate_in=self._rate(uid, RECORDS_IN_RATE, number),
            state_bytes=sum(by_task[number] for by_task in sizes.values() if number < len(by_task)),
            watermark=self._watermarks.get(MetricKey(uid, number, INPUT_WATERMARK)),
        )

    def _rate(self, uid: str, name: str, subtask: int | None = None) -> float:
        return self._numbers.get(MetricKey(uid, subtask, name), 0.0) * self._young

    def _share(self, uid: str, name: str, subtask: int | None = None) -> float | None:
        millis = self._numbers.get(MetricKey(uid, subtask, name))
        return None if millis is None else min(1.0, millis / 1000)

    def _total(self, uid: str, name: str) -> int:
        return sum(self._counters.get(uid, {}).get(name, ()))


def _splits(job: JobSnapshot) -> Iterator[SplitView]:
    """The splits of all sources, those first that are furthest behind."""
    event_time = None if job.latest is None else job.latest.event_time
    if event_time is None:
        return
    slowest = event_time.slowest()
    for split in sorted(event_time.splits, key=_behindness):
        yield SplitView(
            uid=split.uid,
            source=split.source,
            split_id=split.split_id,
            watermark=split.watermark if split.watermarks else None,
            is_idle=split.is_idle,
            is_held_back=split.is_held_back,
            is_slowest=split is slowest and len(event_time.splits) > 1,
            pending_records=split.pending.records,
            pending_bytes=split.pending.bytes,
            read_at=split.read_at,
            idle_timeout=split.idle_timeout,
        )


def _behindness(split: SplitProgress) -> tuple[bool, bool, int, str, str]:
    return (not split.watermarks, split.is_idle, split.watermark, split.source, split.split_id)


def _states(job: JobSnapshot) -> Iterator[StateView]:
    """All states, the largest first."""
    if job.latest is None or job.plan is None:
        return
    names, points = job.plan.shown_names(), job.points()
    sizes = [
        (uid, store, by_task) for uid, by_name in job.latest.state_sizes.items() for store, by_task in by_name.items()
    ]
    for uid, store, by_task in sorted(sizes, key=lambda each: -sum(each[2])):
        kind, name = kind_and_name(store)
        growth = _growth(points, (uid, store))
        yield StateView(uid, names.get(uid, uid), name, kind, sum(by_task), by_task, growth)


def kind_and_name(store: str) -> tuple[str, str]:
    """The kind of state that a store holds, and the name of the state."""
    prefix, slash, name = store.partition("/")
    kind = _KINDS.get(prefix, "") if slash else ""
    return (kind, name) if kind else ("", store)


def _growth(points: Sequence[HistoryPoint], state: tuple[str, str]) -> float | None:
    if not points:
        return None
    last = points[-1]
    first = next((point for point in points if point.time >= last.time - _GROWTH_MILLIS), last)
    if last.time - first.time < _LEAST_GROWTH_MILLIS:
        return None
    return (last.state.get(state, 0) - first.state.get(state, 0)) * 1000 / (last.time - first.time)


def _recent_rate(points: Sequence[HistoryPoint], now: int) -> float:
    """Records in a second since the last point that is a minute old, or the first one."""
    if len(points) < 2:
        return 0.0
    first = next((point for point in reversed(points) if point.time <= now - _RATE_MILLIS), points[0])
    return (points[-1].records - first.records) * 1000 / max(1, now - first.time)


def _savepoint(savepoint: SavepointStatus) -> SavepointView:
    return SavepointView(
        savepoint.number,
        savepoint.epoch,
        savepoint.directory,
        savepoint.place,
        savepoint.error,
        savepoint.format,
        savepoint.begun,
        savepoint.ended,
    )


def _failure(failure: JobFailure) -> FailureView:
    origin = failure.origin
    return FailureView(
        failure.number,
        failure.time,
        failure.epoch,
        failure.error,
        failure.message[:_LONGEST_MESSAGE],
        failure.restart_in,
        None if origin is None else origin.operator,
        None if origin is None else origin.uid,
        None if origin is None else origin.subtask,
        None if origin is None else origin.record,
        None if origin is None else origin.executor,
        dict(failure.labels),
    )


def _trend(job: JobSnapshot, plan: JobPlan | None) -> TrendView:
    points = job.points()
    names = {} if plan is None else plan.shown_names()
    return TrendView(
        times=tuple(point.time for point in points),
        rate=_rates(points, [point.records for point in points]),
        pending=tuple(point.pending for point in points),
        lag=tuple(_lags(points, names)),
        backlog=tuple(_backlogs(points, names)),
        state=tuple(_sizes(points, names)),
        late=_rates(points, [point.late for point in points]),
        rejected=_rates(points, [point.rejected for point in points]),
    )


def _rates(points: Sequence[HistoryPoint], totals: Sequence[int]) -> tuple[float | None, ...]:
    """By how much a total has grown in a second since the point before; the first one has none."""
    pairs = zip(pairwise(points), pairwise(totals), strict=True)
    grown = [(b - a) * 1000 / max(1, after.time - before.time) for (before, after), (a, b) in pairs]
    return (None, *grown) if points else ()


def _lags(points: Sequence[HistoryPoint], names: Mapping[str, str]) -> Iterator[SeriesView]:
    """Of the splits that are furthest behind now, by how many seconds they were at each point."""
    times = [{(split.uid, split.split_id): split.watermark for split in point.splits} for point in points]
    last = times[-1] if times else {}
    for split in sorted(last, key=lambda each: last[each])[:_MOST_SERIES]:
        if any(known.get(split, MIN_WATERMARK) != MIN_WATERMARK for known in times):
            lags = [_lag(point.clock, known.get(split)) for point, known in zip(points, times, strict=True)]
            yield SeriesView(_name_of_split(split, names), tuple(lags))


def _lag(clock: int, watermark: int | None) -> float | None:
    return None if watermark in (None, MIN_WATERMARK, MAX_WATERMARK) else (clock - watermark) / 1000


def _backlogs(points: Sequence[HistoryPoint], names: Mapping[str, str]) -> Iterator[SeriesView]:
    pending = [{(split.uid, split.split_id): split.pending for split in point.splits} for point in points]
    last = pending[-1] if pending else {}
    known = {split: records for split, records in last.items() if records is not None}
    for split in sorted(known, key=lambda each: -known[each])[:_MOST_SERIES]:
        yield SeriesView(_name_of_split(split, names), tuple(each.get(split) for each in pending))


def _name_of_split(split: tuple[str, str], names: Mapping[str, str]) -> str:
    return f"{names.get(split[0], split[0])}[{split[1]}]"


def _sizes(points: Sequence[HistoryPoint], names: Mapping[str, str]) -> Iterator[SeriesView]:
    last = points[-1].state if points else {}
    for uid, store in sorted(last, key=lambda each: -last[each])[:_MOST_SERIES]:
        values = tuple(point.state.get((uid, store)) for point in points)
        yield SeriesView(f"{names.get(uid, uid)}: {kind_and_name(store)[1]}", values)


def _graph(plan: JobPlan) -> GraphView:
    diagram = plan_diagram(plan)
    frames = tuple(
        FrameView(frame.title, tuple(BoxView(b.id, b.name, b.role, b.notes, b.asides) for b in frame.boxes))
        for frame in diagram.frames
    )
    arrows = tuple(ArrowView(a.source, a.target, a.label, a.is_exchange) for a in diagram.arrows)
    return GraphView(diagram.headline, frames, arrows)
