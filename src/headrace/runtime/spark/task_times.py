"""Brings to the driver where the time of tasks went: by an accumulator of Spark, beside the envelopes.

Spark compares what a task shuffles with what it has shuffled before it was run again. So nothing that differs from
attempt to attempt may be among it.
"""

from __future__ import annotations

from typing import TypeAlias

from pyspark import Accumulator, AccumulatorParam

from headrace.runtime.task.task_clock import TaskTimes

TimesByTask: TypeAlias = dict[tuple[int, int], TaskTimes]
"""By stage and partition, the times of the last epoch in which the task has run."""


class _Latest(AccumulatorParam[TimesByTask]):
    """Keeps the times of the latest epoch of each task, whatever comes late."""

    def zero(self, value: TimesByTask) -> TimesByTask:
        return {}

    def addInPlace(self, value1: TimesByTask, value2: TimesByTask) -> TimesByTask:  # Spark's name
        for task, times in value2.items():
            known = value1.get(task)
            if known is None or known.epoch <= times.epoch:
                value1[task] = times
        return value1


TimesAccumulator: TypeAlias = "Accumulator[TimesByTask]"

LATEST = _Latest()


def tell(accumulator: TimesAccumulator, times: TaskTimes) -> None:
    """In a task: where its time went."""
    accumulator.add({(times.stage, times.partition): times})


def times_of(accumulator: TimesAccumulator, epoch: int) -> list[TaskTimes]:
    """In the driver: the times of the tasks of an epoch, which has run."""
    return [times for times in list(accumulator.value.values()) if times.epoch == epoch]
