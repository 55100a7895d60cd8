"""What the program with windows of every kind and its test both know: records, faults, and what is right.

The records are those of one split, so the watermark that each of them meets follows from them alone, and Flink's rules
say exactly what windows show, late firings and what they take back included. Of windows that ask the clock it is known
that they show the records of a key in their order, each as often as it is in a window, up to those that are open when
the input ends.
"""

from __future__ import annotations

import errno
import os
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common import Row
from headrace.datastream import MapFunction
from tests.invariance.driver import Began, History, Ran
from tests.invariance.window_programs import FUNCTIONS, Program
from tests.invariance.window_ways import WAYS, program_of
from tests.reliability.support.faults import FaultPlan, die
from tests.reliability.support.outputs import parts

if TYPE_CHECKING:
    from headrace.datastream import RuntimeContext

COUNT: Final = 1_500
EPOCHS: Final = 20
KEYS: Final = 7
SOURCE: Final = "numbers"

BEFORE_WINDOWS: Final = "a task is killed before the windows"
BEHIND_WINDOWS: Final = "a task is killed that shows windows"
FULL_DISK: Final = "the disk is full in the middle of a file of state"

DYING_NUMBERS: Final = frozenset({COUNT // 3, 2 * COUNT // 3})

ASKING_THE_CLOCK: Final = {
    "by the clock": 1,
    "sliding by the clock": 4,
    "staggered by the clock": 1,
    "contents by the clock": 1,
}
"""In how many windows a record is."""
SUMS_BY_THE_CLOCK: Final = "sums by the clock"


def record_of(number: int) -> Row:
    """A record: out of order by as much as is waited for, late now and then, and a pause after each fifty."""
    behind = 7 if number % 17 == 0 else 25 if number % 29 == 0 else number % 4
    return Row(key=number * 5 % KEYS, value=number, time=number // 4 + 12 * (number // 50) - behind)


def program(way: str) -> Program:
    """The program of one way in which windows are computed."""
    made = program_of(way, [[record_of(number) for number in range(COUNT)]])
    if way in ASKING_THE_CLOCK and made.function is FUNCTIONS["listed"]:
        return replace(made, function=FUNCTIONS["aggregated"])  # which shows each record once
    return made


def point_of(way: str) -> str:
    """The name of the fault behind the windows of a way."""
    return f"{BEHIND_WINDOWS}: {way}"


# --- what goes wrong --------------------------------------------------------------------------------------------------


class Record(MapFunction):
    """Makes the records; dies at some of them."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def open(self, runtime_context: RuntimeContext) -> None:
        FullDisk.of_this_process(self._plan)

    def map(self, value: int) -> Row:
        if value in DYING_NUMBERS and self._plan.strikes(BEFORE_WINDOWS):
            die()
        return record_of(value)


class Line(MapFunction):
    """A line for each result: its key, and what it does and is; dies once the results have come to a certain record.

    Args:
        way: the way in which the windows are computed.
        plan: the faults.
    """

    def __init__(self, way: str, plan: FaultPlan) -> None:
        self._way = way
        self._plan = plan
        self._deadly = COUNT * (list(WAYS).index(way) + 1) // (len(WAYS) + 2)
        self._lives = True

    def open(self, runtime_context: RuntimeContext) -> None:
        FullDisk.of_this_process(self._plan)

    def map(self, value: Row) -> str:
        if self._lives and newest_in(value) >= self._deadly:
            self._lives = False
            if self._plan.strikes(point_of(self._way)):
                die()
        return line_of(value)


class FullDisk:
    """``os.write`` where a disk fills up in the middle of a file of state: half of it is written, then nothing.

    Args:
        plan: says when.
    """

    _installed = False

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._write = os.write
        self._full: int | None = None

    @classmethod
    def of_this_process(cls, plan: FaultPlan) -> None:
        """Put it into place, once."""
        if not cls._installed:
            cls._installed = True
            os.write = cls(plan).write

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write, or do not."""
        if descriptor == self._full:
            self._full = None
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if Path(os.readlink(f"/proc/self/fd/{descriptor}")).parent.name == "state" and self._plan.strikes(FULL_DISK):
            self._full = descriptor
            data = data[: len(data) // 2]
        return self._write(descriptor, data)


# --- what is right ----------------------------------------------------------------------------------------------------


def newest_in(result: Row) -> int:
    """The newest record that a result is of."""
    return max(_values(str(tuple(result)[-1])))


def line_of(result: Row) -> str:
    """Key, kind and fields of a result."""
    return f"{result.as_dict().get('key')}|{result.get_row_kind().name}|{tuple(result)}"


def values_in_line(line: str) -> list[int]:
    """The records that a line lists: in its last field, which is the only list or text beside the window."""
    return _values(line.rpartition(", '")[2] if line.endswith("')") else line.rpartition("[")[2])


def _values(text: str) -> list[int]:
    return [int(value) for value in re.findall(r"\d+", text)]


def expected(way: str) -> tuple[dict[str, list[str]], list[str]]:
    """The lines that a way shows, by key and in order; and the records that are late, sorted."""
    history = History()
    history.events = [Began(0), Ran(0, {("events", 0): (0, COUNT)}, frozenset({("events", 0)}))]
    made = program(way)
    model = made.model(history)
    lines = defaultdict(list)
    for key, row, _ in model.changes:
        lines[str(key)].append(line_of(row))
    return dict(lines), sorted(str(tuple(record)) for record in model.late if made.function.tells_late)


def found(folder: Path) -> dict[str, list[str]]:
    """The lines in an output, by key and in order."""
    lines = defaultdict(list)
    for part in sorted(parts(folder), key=lambda part: (part.first, part.subtask)):
        for line in part.path.read_text().splitlines():
            lines[line.partition("|")[0]].append(line)
    return dict(lines)
