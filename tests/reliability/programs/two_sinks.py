"""Random tokens into two sinks, in the second and in the last of three stages, on a cluster whose executors die.

The function is not deterministic, which nobody should do: it shows whether two attempts of a task are ever mixed.

    two_sinks.py FOLDER PLAN MASTER
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from headrace.common import Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tests.reliability.support import canonical
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.numbers import NumbersInSplits, split_of
from tests.reliability.support.two_sinks import COUNT, EPOCHS, KEYS, MARKS, SPLITS, point

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


def kill_executor() -> None:
    """Kill the executor that this Python worker belongs to."""
    for ancestor in psutil.Process().parents():
        if "CoarseGrainedExecutorBackend" in " ".join(ancestor.cmdline()):
            ancestor.kill()
            os._exit(66)
    raise AssertionError("this is no worker of an executor")


class Deadly:
    """Kills the executor at certain records.

    Args:
        plan: the kills.
        stage: where this is.
    """

    def __init__(self, plan: FaultPlan, stage: str) -> None:
        self._plan = plan
        self._stage = stage

    def at(self, number: int) -> None:
        if number in MARKS[self._stage] and self._plan.strikes(point(self._stage, number)):
            kill_executor()


class Tokens(KeyedProcessFunction):
    """Gives every number a token that is another one each time."""

    def __init__(self, deadly: Deadly) -> None:
        self._deadly = deadly

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, str]]:
        self._deadly.at(value)
        yield value, uuid.uuid4().hex


class Same(KeyedProcessFunction):
    """Hands on what it gets."""

    def __init__(self, deadly: Deadly) -> None:
        self._deadly = deadly

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, str]]:
        self._deadly.at(value[0])
        yield value


def main(folder: str, faults: str, master: str) -> None:
    plan = FaultPlan(faults)
    settings = canonical.configuration(
        Path(folder),
        **{
            "headrace.runtime": "spark",
            "headrace.spark.master": master,
            "spark.executor.memory": "1g",
            "headrace.epoch.max-records": str(COUNT * SPLITS // EPOCHS // 4),
            "headrace.epoch.target-duration": "60s",
        },
    )
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(4)
    first = Deadly(plan, "first")

    def checked(number: int) -> int:
        first.at(number)
        return number

    numbers = env.from_source(NumbersInSplits(SPLITS, COUNT), WatermarkStrategy.no_watermarks(), "numbers")
    splits = numbers.uid("numbers").map(checked, Types.LONG()).uid("first")
    tokens = (
        splits.key_by(lambda number: split_of(number, SPLITS), Types.LONG())
        .process(Tokens(Deadly(plan, "second")), PAIR)
        .uid("tokens")
    )
    tokens.sink_to(canonical.row_sink(Path(folder) / "early")).uid("early")
    last = tokens.key_by(lambda pair: pair[0] % KEYS, Types.LONG()).process(Same(Deadly(plan, "last")), PAIR)
    last.uid("same").sink_to(canonical.row_sink(Path(folder) / "late")).uid("late")
    env.execute("two sinks")


if __name__ == "__main__":
    main(*sys.argv[1:])
