"""Measures where the time of a task goes: its operators, the wait for input, the wait for the receiver of output.

What is measured differs from attempt to attempt, so it travels beside the envelopes, never in them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

_TASK: Final = ""
"""The account of what a task does for none of its operators."""

_INPUT: Final = "<input"
_OUTPUT: Final = ">output"


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """The time of one task in one epoch.

    Attributes:
        epoch: the epoch.
        stage: its stage.
        partition: its number within the stage.
        ended: when it ended, in nanoseconds since 1970, by the clock of its machine.
        operators: by uid, nanoseconds of work, without those of other operators that it called.
        own: nanoseconds of other work: envelopes, state.
        waiting_for_input: nanoseconds.
        waiting_for_output: nanoseconds.
    """

    epoch: int
    stage: int
    partition: int
    ended: int
    operators: Mapping[str, int]
    own: int
    waiting_for_input: int
    waiting_for_output: int


def ignore(times: TaskTimes) -> None:
    """Do nothing, where the times are not needed."""


class TaskClock:
    """Measures one task after another; at each moment the time goes to one account."""

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}
        self._account = _TASK
        self._since = 0

    def begin(self) -> None:
        """A task begins."""
        self._spent = {}
        self._account = _TASK
        self._since = time.perf_counter_ns()

    def switch(self, account: str) -> str:
        """From now on time goes to another account, the uid of an operator; returns the one that it went to."""
        now, before = time.perf_counter_ns(), self._account
        self._spent[before] = self._spent.get(before, 0) + now - self._since
        self._since, self._account = now, account
        return before

    def received(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on, and count the time until each arrives as waiting for input."""
        iterator = iter(items)
        while True:
            before = self.switch(_INPUT)
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self.switch(before)
            yield item

    def sent(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on, and count the time until the next one is requested as waiting for output."""
        for item in items:
            before = self.switch(_OUTPUT)
            yield item
            self.switch(before)

    def end(self, epoch: int, stage: int, partition: int) -> TaskTimes:
        """A task has ended."""
        self.switch(_TASK)
        spent, self._spent = self._spent, {}
        own, waited, held_up = spent.pop(_TASK, 0), spent.pop(_INPUT, 0), spent.pop(_OUTPUT, 0)
        return TaskTimes(epoch, stage, partition, time.time_ns(), spent, own, waited, held_up)
