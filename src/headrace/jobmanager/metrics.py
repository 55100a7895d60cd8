"""The metrics of a job by operator, subtask and name: totals, what functions measure, event time, sources that lag."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, NamedTuple, TypeVar

from headrace.checkpoint.manifest import Manifest, OperatorProgress
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.connectors.source import Pending
from headrace.graph.specs import TimestampsSpec
from headrace.metrics.registry import (
    ALIGNMENT_DRIFT,
    INPUT_WATERMARK,
    OUTPUT_WATERMARK,
    SPLIT_WATERMARK,
    WATERMARK_LAG,
    MetricGroupName,
    Rate,
    Summary,
)
from headrace.plan.job_plan import JobPlan, PlannedOperator
from headrace.runtime.task.messages import TaskReport

N = TypeVar("N", bound=float)


class MetricKey(NamedTuple):
    """The identity of a metric of a job.

    Attributes:
        uid: the uid of the operator; empty for the job as a whole.
        subtask: the subtask; None for the operator as a whole.
        name: the name, with those of its groups before it.
    """

    uid: str
    subtask: int | None
    name: str


def by_shown_name(metrics: Mapping[MetricKey, N], names: Mapping[str, str]) -> dict[str, N]:
    """Metrics under the names that programs see: ``<operator>.<name>``, for a gauge ``<operator>.<subtask>.<name>``.

    Subtasks are left out of what is there for the operator as a whole.

    Args:
        metrics: by key.
        names: what operators are called, by uid; those that the program has no more are called by their uid.
    """
    found: dict[str, N] = {}
    for (uid, subtask, name), value in metrics.items():
        if subtask is None or MetricKey(uid, None, name) not in metrics:
            parts = names.get(uid, uid), "" if subtask is None else str(subtask), name
            found[".".join(filter(None, parts))] = value
    return found


def counters_of(manifest: Manifest | None) -> dict[MetricKey, int]:
    """The totals of a manifest, if there is one: of the job, and of each operator and its subtasks."""
    found: dict[MetricKey, int] = {}
    if manifest is None:
        return found
    for name, total in manifest.counters.items():
        found[MetricKey("", None, name)] = total
    for uid, of_operator in manifest.operator_counters.items():
        for name, by_subtask in of_operator.items():
            found[MetricKey(uid, None, name)] = sum(by_subtask)
            for subtask, total in enumerate(by_subtask):
                found[MetricKey(uid, subtask, name)] = total
    return found


@dataclass(frozen=True, slots=True)
class FunctionMetrics:
    """Gauges, rates and distributions since the job has begun to run; counters are totals of the manifest.

    Each epoch makes another one, so clients read what they have got while the job goes on.

    Attributes:
        gauges: as of the last epoch.
        rates: those of meters, whose events are counters.
        distributions: of all epochs.
        groups: by uid and name, the groups of metrics that are in some; also those of counters.
    """

    gauges: Mapping[MetricKey, float] = field(default_factory=dict)
    rates: Mapping[MetricKey, Rate] = field(default_factory=dict)
    distributions: Mapping[MetricKey, Summary] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], tuple[MetricGroupName, ...]] = field(default_factory=dict)

    def after(self, reports: Iterable[TaskReport], now: int) -> "FunctionMetrics":
        """The same after an epoch whose manifest exists; ``now`` is the clock's reading in milliseconds."""
        gauges: dict[MetricKey, float] = {}
        rates, distributions, groups = dict(self.rates), dict(self.distributions), dict(self.groups)
        for report in reports:
            for uid, measured in report.metrics.items():
                of = (uid, report.partition)
                gauges |= {MetricKey(*of, name): value for name, value in measured.gauges.items()}
                for name, (events, seconds) in measured.meters.items():
                    key = MetricKey(*of, name)
                    rate = rates.get(key, Rate(seconds * 1000))
                    rates[key] = rate.after(now, events) if events else rate
                for name, summary in measured.distributions.items():
                    key = MetricKey(*of, name)
                    distributions[key] = distributions[key].and_of(summary) if key in distributions else summary
                groups |= {(uid, name): around for name, around in measured.groups.items()}
        return FunctionMetrics(gauges, rates, distributions, groups)

    def values(self, now: int) -> dict[MetricKey, float]:
        """All of them at a reading of the clock in milliseconds, of subtasks and but for gauges of operators."""
        found = dict(self.gauges)
        rates: defaultdict[MetricKey, float] = defaultdict(float)
        summaries: defaultdict[MetricKey, list[Summary]] = defaultdict(list)
        for key, rate in self.rates.items():
            found[key] = rate.per_second(now)
            rates[key._replace(subtask=None)] += found[key]
        for key, summary in self.distributions.items():
            summaries[key].append(summary)
            summaries[key._replace(subtask=None)].append(summary)
        found |= rates
        for key, several in summaries.items():
            shown = reduce(Summary.and_of, several).shown(key.name)
            found |= {key._replace(name=name): value for name, value in shown.items()}
        return found


_NO_TIMES = (MIN_WATERMARK, MAX_WATERMARK)


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """A source at the end of an epoch.

    Attributes:
        name: its name.
        pending: what is there and not read yet, of all splits; records may be an estimate.
        watermark: the lowest of the splits that count.
        idle_since: since when nothing has come, in milliseconds of the job's clock.
        is_processing_backlog: whether it reads what is history, so that epochs may be longer.
        lags: how far the timestamps of the last records were behind the clock when the epoch that read them began, and
            when it was complete, in the split that is furthest behind; None without event time or records.
        more: what else the source tells, by name.
        uid: its uid.
    """

    name: str
    pending: Pending
    watermark: int
    idle_since: int
    is_processing_backlog: bool = False
    lags: tuple[int, int] | None = None
    more: Mapping[str, int] = field(default_factory=dict)
    uid: str = ""

    def metrics(self, now: int) -> dict[MetricKey, float]:
        """Records, bytes and milliseconds, as of a reading of the job's clock; none of what is not known.

        ``pendingRecords`` and ``pendingBytes``; ``currentFetchEventTimeLag`` and ``currentEmitEventTimeLag``: how far
        the timestamps of the last records were behind the clock when the epoch that read them began, and when it was
        complete; ``watermarkLag``; ``sourceIdleTime``; ``isProcessingBacklog``, 1 or 0; and what else the source tells.
        """
        fetch, emit = self.lags or (None, None)
        found = {
            "pendingRecords": self.pending.records,
            "pendingBytes": self.pending.bytes,
            "currentFetchEventTimeLag": fetch,
            "currentEmitEventTimeLag": emit,
            WATERMARK_LAG: None if self.watermark in _NO_TIMES else now - self.watermark,
            "sourceIdleTime": max(0, now - self.idle_since),
            "isProcessingBacklog": int(self.is_processing_backlog),
            **self.more,
        }
        return {MetricKey(self.uid, None, name): value for name, value in found.items() if value is not None}


@dataclass(slots=True)
class ReadingHistory:
    """The reading of a source in this run: when it last read, and how many bytes a record takes.

    Attributes:
        idle_since: as in :class:`SourceProgress`; at first when the run began.
        lags: likewise.
    """

    idle_since: int
    lags: tuple[int, int] | None = None
    _records: int = 0
    _bytes: int = 0

    def add(self, records: int, size: int, event_times: Iterable[int | None], fetched_at: int, emitted_at: int) -> None:
        """An epoch is complete.

        Args:
            records: how many records it read.
            size: how many bytes these were, by the enumerator's word.
            event_times: of each split, the timestamp of the last record.
            fetched_at: when the epoch began, in milliseconds of the job's clock.
            emitted_at: when it was complete.
        """
        if records:
            known = [time for time in event_times if time is not None and time != NO_TIMESTAMP]
            self.lags = (fetched_at - min(known), emitted_at - min(known)) if known else None
            self.idle_since = emitted_at
            self._records += records
            self._bytes += size

    def total(self, splits: Iterable[Pending]) -> Pending:
        """The totals of all splits; records are estimated from bytes where only these are known."""
        records: int | None = 0
        size: int | None = 0
        for split in splits:
            records = None if records is None or split.records is None else records + split.records
            size = None if size is None or split.bytes is None else size + split.bytes
        if records is None and size == 0:
            records = 0
        elif records is None and size is not None and self._bytes:
            records = round(size * self._records / self._bytes)
        return Pending(records, size)


_NOT_KNOWN: Final = Pending()


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """One split at the end of an epoch.

    Attributes:
        source: the name of its source.
        split_id: the enumerator's id for it.
        watermarks: by uid of the operators that make them.
        idle: those of these operators that do not wait for it.
        is_held_back: whether it waits for others that it is aligned with.
        uid: the uid of its source.
        pending: what is there and not read yet; records may be an estimate.
        read_at: when something of it was last read in this run, in milliseconds of the job's clock; None for never.
        idle_timeout: after how many milliseconds of silence nothing waits for it; None for never.
    """

    source: str
    split_id: str
    watermarks: Mapping[str, int]
    idle: frozenset[str] = frozenset()
    is_held_back: bool = False
    uid: str = ""
    pending: Pending = _NOT_KNOWN
    read_at: int | None = None
    idle_timeout: int | None = None

    @property
    def watermark(self) -> int:
        """The lowest one."""
        return min(self.watermarks.values(), default=MIN_WATERMARK)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits for it."""
        return bool(self.watermarks) and self.idle >= self.watermarks.keys()

    def __str__(self) -> str:
        """``orders[3]``."""
        return f"{self.source}[{self.split_id}]"


@dataclass(frozen=True, slots=True)
class WatermarkProgress:
    """Event time in all of a job at the end of an epoch.

    Attributes:
        plan: the job.
        manifest: of the epoch.
        splits: those from which something may still come.
        ended: by uid, the operators that make watermarks of sources that have ended.
    """

    plan: JobPlan
    manifest: Manifest
    splits: tuple[SplitProgress, ...] = ()
    ended: frozenset[str] = frozenset()

    def slowest(self) -> SplitProgress | None:
        """The split that holds event time; None where there is no split with event time that counts."""
        counting = (split for split in self.splits if split.watermarks and not split.is_idle)
        return min(counting, key=lambda split: split.watermark, default=None)

    def metrics(self) -> dict[MetricKey, int]:
        """Milliseconds by key: of each operator, of its subtasks behind a shuffle, and of each split of a source.

        ``currentInputWatermark`` and ``currentOutputWatermark``, of an operator those of its slowest subtask.
        ``watermarkLag``: how far the output is behind the job's clock, where there is a watermark.
        ``<split>.currentWatermark``. ``watermarkAlignmentDrift``: how far the fastest split is ahead of the slowest
        one of its group.
        """
        found = self.of_operators()
        for split in self.splits:
            if split.watermarks:
                found[MetricKey(split.uid, None, f"{split.split_id}.{SPLIT_WATERMARK}")] = split.watermark
        return found

    def of_operators(self) -> dict[MetricKey, int]:
        """The same without what is of splits alone."""
        found: dict[MetricKey, int] = {}
        for planned, operator in self._operators():
            found |= self._of(MetricKey(planned.uid, None, ""), operator)
            if planned.stage:
                for subtask, reached in self._of_subtasks(planned):
                    found |= self._of(MetricKey(planned.uid, subtask, ""), reached)
        return found | dict(self._drifts())

    def _of(self, key: MetricKey, reached: OperatorProgress) -> dict[MetricKey, int]:
        watermarks = {INPUT_WATERMARK: reached.watermark, OUTPUT_WATERMARK: reached.output}
        if reached.output not in (MIN_WATERMARK, MAX_WATERMARK):
            watermarks[WATERMARK_LAG] = self.manifest.processing_time - reached.output
        return {key._replace(name=name): millis for name, millis in watermarks.items()}

    def of_operator(self, uid: str) -> OperatorProgress | None:
        """The slowest subtask of an operator; None before it has begun, and for sources."""
        return next((found for planned, found in self._operators() if planned.uid == uid), None)

    def _operators(self) -> Iterator[tuple[PlannedOperator, OperatorProgress]]:
        """Operators and their progress, in topological order.

        There are none behind a source that waits for its next split, and none at all before the first epoch.
        """
        if not self.manifest.stages:
            return
        reached: dict[int, OperatorProgress] = {}
        for planned in self.plan.operators():
            found = self._of_later_stage(planned) if planned.stage else self._of_first_stage(planned, reached)
            if found is not None:
                reached[planned.node.id] = found
                if planned.inputs:
                    yield planned, found

    def _of_first_stage(
        self, planned: PlannedOperator, reached: Mapping[int, OperatorProgress]
    ) -> OperatorProgress | None:
        """Event time is kept by split there."""
        if not planned.inputs:
            return OperatorProgress()
        if any(edge.source not in reached for edge in planned.inputs):
            return None
        entered = min(reached[edge.source].output for edge in planned.inputs)
        if not isinstance(planned.node.spec, TimestampsSpec):
            return OperatorProgress(entered, entered)
        made = self._made(planned.uid)
        return None if made is None else OperatorProgress(entered, made)

    def _made(self, uid: str) -> int | None:
        """The watermark that an operator makes of all its splits; that of the fastest one where all are idle."""
        splits = [split for split in self.splits if uid in split.watermarks]
        if not splits:
            return MAX_WATERMARK if uid in self.ended else None
        counting = [split.watermarks[uid] for split in splits if uid not in split.idle]
        return min(counting) if counting else max(split.watermarks[uid] for split in splits)

    def _of_later_stage(self, planned: PlannedOperator) -> OperatorProgress | None:
        known = [reached for _, reached in self._of_subtasks(planned)]
        if not known:
            return None
        return OperatorProgress(min(each.watermark for each in known), min(each.output for each in known))

    def _of_subtasks(self, planned: PlannedOperator) -> Iterator[tuple[int, OperatorProgress]]:
        if planned.stage >= len(self.manifest.stages):  # before the first epoch of a program that has changed
            return
        for subtask, partition in enumerate(self.manifest.stages[planned.stage].partitions):
            reached = partition.progress.get(planned.uid)
            if reached is not None:
                output = reached.watermark if planned.node.is_sink else reached.output
                yield subtask, OperatorProgress(reached.watermark, output)

    def _drifts(self) -> Iterator[tuple[MetricKey, int]]:
        groups: dict[str, dict[str, list[int]]] = {}
        for planned in self.plan.stages[0].operators:
            spec, uid = planned.node.spec, planned.uid
            if isinstance(spec, TimestampsSpec) and spec.strategy.alignment is not None:
                counting = [s.watermarks[uid] for s in self.splits if uid in s.watermarks and uid not in s.idle]
                if counting:
                    groups.setdefault(spec.strategy.alignment.group, {})[uid] = counting
        for members in groups.values():
            slowest = min(map(min, members.values()))
            if slowest > MIN_WATERMARK:
                for uid, reached in members.items():
                    yield MetricKey(uid, None, ALIGNMENT_DRIFT), max(reached) - slowest
