"""A module of the job, which executors have from the archive alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from sortedcontainers import SortedList

from headrace.common import Types
from headrace.datastream import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor

NUMBERS = 4_000
KEYS = 7
DEADLY = 2_345
"""The number at which an executor dies."""


class Totals(KeyedProcessFunction):
    """Emits every number with the total of its key so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        total = (self._total.value() or 0) + value
        self._total.update(total)
        yield SortedList([value])[0], total


def die_once(number: int, folder: Path) -> int:
    """Kill the executor of this process, the first time that the deadly number comes by."""
    if number == DEADLY:
        try:
            os.close(os.open(folder / "an executor has died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return number
        os.kill(_parent(os.getppid()), signal.SIGKILL)  # executor, daemon of Python workers, this worker
        os._exit(66)
    return number


def _parent(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))
