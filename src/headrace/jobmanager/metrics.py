"""The metrics of a job by operator, subtask and name: totals of the manifest, and what functions measure in a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple, TypeVar

from headrace.checkpoint.manifest import Manifest, OperatorCounters
from headrace.metrics.own_names import RECORDS_IN
from headrace.metrics.registry import EVENTS, Rate, Summary
from headrace.plan.job_plan import JobPlan
from headrace.runtime.task.messages import TaskReport

N = TypeVar("N", bound=float)


class MetricKey(NamedTuple):
    """Which metric of a job a number is.

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
    return {
        ".".join(part for part in (names.get(uid, uid), "" if subtask is None else str(subtask), name) if part): value
        for (uid, subtask, name), value in metrics.items()
        if subtask is None or MetricKey(uid, None, name) not in metrics
    }


def counters_of(manifest: Manifest) -> dict[MetricKey, int]:
    """The totals of a manifest: those of the job, and of each operator and its subtasks."""
    found = {MetricKey("", None, name): total for name, total in manifest.counters.items()}
    for uid, counters in manifest.operator_counters.items():
        for name, by_subtask in counters.items():
            found[MetricKey(uid, None, name)] = sum(by_subtask)
            found |= {MetricKey(uid, subtask, name): total for subtask, total in enumerate(by_subtask)}
    return found


def next_operator_counters(
    known: OperatorCounters, plan: JobPlan, reports: Iterable[TaskReport]
) -> dict[str, dict[str, tuple[int, ...]]]:
    """The totals of operators after an epoch; those of subtasks that there are no more stay in the sums."""
    totals = {uid: {name: list(values) for name, values in counters.items()} for uid, counters in known.items()}
    for uid, subtask, name, amount in _counted(plan, reports):
        values = totals.setdefault(uid, {}).setdefault(name, [])
        values.extend([0] * (subtask + 1 - len(values)))
        values[subtask] += amount
    return {uid: {name: tuple(values) for name, values in counters.items()} for uid, counters in totals.items()}


def _counted(plan: JobPlan, reports: Iterable[TaskReport]) -> Iterator[tuple[str, int, str, int]]:
    uids = {planned.node.id: planned.uid for planned in plan.operators()}
    for report in reports:
        for node, records in report.records.items():
            yield uids[node], report.partition, RECORDS_IN, records
        for node, counts in report.counters.items():
            for name, amount in counts.items():
                yield uids[node], report.partition, name, amount
        for node, measured in report.metrics.items():
            for name, amount in measured.counters.items():
                yield uids[node], report.partition, name, amount
            for name, (events, _) in measured.meters.items():
                yield uids[node], report.partition, name + EVENTS, events


@dataclass(frozen=True, slots=True)
class FunctionMetrics:
    """Gauges, rates and distributions since the job has begun to run; counters are totals of the manifest.

    Each epoch makes another one, so clients read what they have got while the job goes on.
    """

    gauges: Mapping[MetricKey, float] = field(default_factory=dict)
    rates: Mapping[MetricKey, Rate] = field(default_factory=dict)
    distributions: Mapping[MetricKey, Summary] = field(default_factory=dict)

    def after(self, plan: JobPlan, reports: Iterable[TaskReport], now: int) -> FunctionMetrics:
        """The same after an epoch whose manifest exists; ``now`` is the clock's reading in milliseconds."""
        gauges: dict[MetricKey, float] = {}
        rates, distributions = dict(self.rates), dict(self.distributions)
        uids = {planned.node.id: planned.uid for planned in plan.operators()}
        for report in reports:
            for node, measured in report.metrics.items():
                of = (uids[node], report.partition)
                gauges |= {MetricKey(*of, name): value for name, value in measured.gauges.items()}
                for name, (events, seconds) in measured.meters.items():
                    key = MetricKey(*of, name)
                    rate = rates.get(key, Rate(seconds * 1000))
                    rates[key] = rate.after(now, events) if events else rate
                for name, summary in measured.distributions.items():
                    key = MetricKey(*of, name)
                    distributions[key] = distributions[key].and_of(summary) if key in distributions else summary
        return FunctionMetrics(gauges, rates, distributions)

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
