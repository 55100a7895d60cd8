"""Runs a case: what Flink's CepOperator does around the automaton, for each key by itself."""

from collections.abc import Callable
from typing import Any

from headrace.cep.compiler import compile_pattern
from headrace.operators.pattern.conditions import EventFacts
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.shared_buffer import MatchedEvents, NfaState
from tests.cep.conformance.patterns import KINDS, Event, pattern, skip_strategy

MIN = -(1 << 63)
MAX = (1 << 63) - 1


class KeyDriver:
    def __init__(self) -> None:
        self.state = NfaState()
        self.buffer: dict[int, list[Event]] = {}
        self.timers: set[int] = set()


class Driver:
    """Flink's operator, over the automaton.

    Attributes:
        out: what came out, as in ``expected``.
    """

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.out: list[list[Any]] = []
        self.step = 0
        self.now = 0
        self.watermark = MIN
        self.keys: dict[str, KeyDriver] = {}
        self.is_processing_time = case.get("time") == "processing"
        self.automaton = compile_pattern(pattern(case["pattern"], skip_strategy(case.get("skip"))))
        self.nfa = Nfa(self.automaton, current_processing_time=lambda: self.now)
        self.order = _order(case.get("comparator"))

    def run(self) -> None:
        for step, item in enumerate(self.case["input"]):
            self.step = step
            match item:
                case ["e", key, name, timestamp, *rest]:
                    kind = KINDS.get(rest[2], Event) if len(rest) > 2 else Event
                    self._element(kind(key, name, rest[0], rest[1]), timestamp)
                case ["w", told]:
                    self.watermark = MAX if told == "max" else told
                    self._fire(self.watermark)
                case ["p", told]:
                    self.now = told
                    self._fire(told)
                case ["s"]:
                    self.watermark = MIN

    def left(self) -> dict[str, list[int]]:
        return {
            key: [
                len(driver.state.partial),
                len(driver.state.finished),
                sum(map(len, driver.buffer.values())),
            ]
            for key, driver in self.keys.items()
        }

    def _element(self, event: Event, timestamp: int) -> None:
        driver = self.keys.setdefault(event.key, KeyDriver())
        if self.is_processing_time and self.order is None:
            self._advance(event.key, driver, self.now)
            self._process(event.key, driver, event, self.now)
            _store(driver)
        elif self.is_processing_time:
            self._buffer(driver, event, self.now)
        elif timestamp > self.watermark:
            self._buffer(driver, event, timestamp)
        else:
            self.out.append(["l", self.step, event.key, timestamp, {"late": [event.id]}])

    def _buffer(self, driver: KeyDriver, event: Event, timestamp: int) -> None:
        if timestamp not in driver.buffer:
            self._register(driver, timestamp)
        driver.buffer.setdefault(timestamp, []).append(event)

    def _register(self, driver: KeyDriver, timestamp: int) -> None:
        driver.timers.add(timestamp + 1 if self.is_processing_time else timestamp)

    def _fire(self, now: int) -> None:
        until = MAX if self.is_processing_time else now
        while True:
            timer, key = min(
                ((min(one.timers, default=MAX + 1), key) for key, one in self.keys.items()), default=(MAX + 1, "")
            )
            if timer > now:
                break
            driver = self.keys[key]
            driver.timers.remove(timer)
            self._flush(key, driver, until)
            self._advance(key, driver, now)
            _store(driver)

    def _flush(self, key: str, driver: KeyDriver, until: int) -> None:
        for timestamp in sorted(driver.buffer):
            if timestamp > until:
                break
            self._advance(key, driver, timestamp)
            events = driver.buffer.pop(timestamp)
            for event in events if self.order is None else self.order(events):
                self._process(key, driver, event, timestamp)

    def _process(self, key: str, driver: KeyDriver, event: Event, timestamp: int) -> None:
        holds = unknown = 0
        for at, condition in enumerate(self.automaton.event_conditions):
            try:
                holds |= condition.holds(EventFacts(event)) << at
            except Exception:
                unknown |= 1 << at
        matches = self.nfa.process(driver.state, event, timestamp, holds, unknown)
        if self.automaton.window > 0 and driver.state.has_new_start:
            self._register(driver, timestamp + self.automaton.window)
        self._emit("m", key, timestamp, matches)

    def _advance(self, key: str, driver: KeyDriver, timestamp: int) -> None:
        if timestamp < self.nfa.deadline(driver.state):
            return
        advance = self.nfa.advance_time(driver.state, timestamp)
        self._emit("m", key, timestamp, advance.matches)
        for late in advance.timed_out:
            self._emit("t", key, late.timestamp, [late.match])

    def _emit(self, kind: str, key: str, timestamp: int, matches: list[MatchedEvents]) -> None:
        for match in matches:
            stages = {stage: [event.id for event in events] for stage, events in match.by_stage().items()}
            self.out.append([kind, self.step, key, timestamp, stages])


def _store(driver: KeyDriver) -> None:
    if driver.state.is_changed:
        driver.state.is_changed = driver.state.has_new_start = False


def _order(comparator: str | None) -> Callable[[list[Event]], list[Event]] | None:
    if comparator is None:
        return None
    is_descending = comparator.startswith("-")
    field = comparator.removeprefix("-")

    def ordered(events: list[Event]) -> list[Event]:
        return sorted(events, key=lambda event: getattr(event, field), reverse=is_descending)

    return ordered
