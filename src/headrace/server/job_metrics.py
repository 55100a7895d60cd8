"""The metrics of a job at one moment, as clients of Flink's REST API ask for them: by operator, subtask and name."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from headrace.metrics.registry import Summary
from headrace.metrics.samples import MeterReading, MetricSample, MetricValue
from headrace.metrics.scopes import ScopeKind
from headrace.plan.job_plan import operator_id

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")

Numbers = Mapping[str, MetricValue]
"""Metrics by name."""


class JobMetrics:
    """All that a job measures at one moment.

    Args:
        samples: as reporters get them.
    """

    def __init__(self, samples: Sequence[MetricSample]) -> None:
        self._samples = samples

    def of_job(self) -> dict[str, MetricValue]:
        """The metrics of the job as a whole."""
        return dict(self._of(ScopeKind.JOB))

    def of_driver(self) -> dict[str, MetricValue]:
        """The metrics of the process."""
        return dict(self._of(ScopeKind.JOB_MANAGER))

    def of_operator(self, uid: str) -> Mapping[int, Numbers]:
        """The metrics of an operator, by subtask; those of the operator as a whole are with subtask 0."""
        return self._by_task.get(operator_id(uid), {})

    def total(self, uid: str, name: str, subtask: int | None) -> float | None:
        """A number of one subtask, or the sum of all; None where it is not measured."""
        by_subtask = self.of_operator(uid)
        chosen = by_subtask.values() if subtask is None else (by_subtask.get(subtask, {}),)
        numbers = [value for each in chosen if isinstance(value := each.get(name), int | float)]
        return sum(numbers) if numbers else None

    @cached_property
    def _by_task(self) -> dict[str, dict[int, dict[str, MetricValue]]]:
        """A task is one operator of one subtask."""
        found: defaultdict[str, dict[int, dict[str, MetricValue]]] = defaultdict(dict)
        for sample in self._samples:
            variables = sample.scope.variables
            task = variables.get("task_id")
            if task is not None:
                kind = ScopeKind.OPERATOR if "operator_id" in variables else ScopeKind.TASK
                groups = _with_values(sample.scope.logical[len(kind.value) :], sample)
                of_subtask = found[task].setdefault(int(variables["subtask_index"]), {})
                of_subtask.update(_named(".".join((*groups, sample.name)), sample.value))
        return found

    def _of(self, kind: ScopeKind) -> Iterator[tuple[str, MetricValue]]:
        for sample in self._samples:
            if sample.scope.logical == kind.value:
                yield from _named(sample.name, sample.value)


def _with_values(groups: Sequence[str], sample: MetricSample) -> Iterator[str]:
    for group in groups:
        yield group
        if group in sample.scope.variables:
            yield sample.scope.variables[group]


def _named(name: str, value: MetricValue) -> Iterator[tuple[str, MetricValue]]:
    if isinstance(value, MeterReading):
        yield name, value.rate
    elif isinstance(value, Summary):
        parts = {"count": value.count, "min": value.least, "max": value.greatest, "mean": value.mean}
        yield from ((f"{name}_{what}", number) for what, number in parts.items())
    else:
        yield name, value


def shown(value: MetricValue) -> str:
    """A value as text, as Java writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def operator_scope(name: str) -> str:
    """The name of an operator in the names of metrics: characters that have a meaning there are replaced."""
    return _NOT_IN_NAMES.sub("_", name)


def percentile(ordered: Sequence[int], part: float) -> float:
    """The number below which so many per cent of others are; between two of them in proportion.

    Args:
        ordered: the numbers, the smallest one first; at least one.
        part: how many per cent.
    """
    place = (len(ordered) - 1) * part / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
