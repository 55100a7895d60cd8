"""What the program with patterns and its test both know: records, rules, faults, and what is right.

All records are those of one split; every so many is a change of a rule, the others are events. None is late, so what
comes out follows from the records alone, and the model of the tests of invariance knows it.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.cep import CEP, PatternStream
from headrace.common import Types
from headrace.datastream import DataStream, MapFunction
from tests.invariance.driver import Event
from tests.invariance.test_dynamic_patterns import (
    REJECTED,
    TIMED_OUT,
    TOLD,
    Told,
    expected,
    rule_of,
    versions,
)
from tests.invariance.test_patterns import FIRST
from tests.reliability.support.faults import FaultPlan, die

COUNT: Final = 1_200
EPOCHS: Final = 20
KEYS: Final = 20
DISORDER: Final = 9
RULE_EVERY: Final = 75

RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
"""Key, value and time; of a change the id of the rule, and which one it becomes."""

BEFORE_PATTERNS: Final = "a task is killed before the patterns"
BEHIND_PATTERNS: Final = "a task is killed that shows matches"

DYING_NUMBERS: Final = frozenset({COUNT // 3, 2 * COUNT // 3})
OUTPUTS: Final = ("matches", "timeouts", "rejected")


def is_rule(number: int) -> bool:
    """Whether a record is a change of a rule."""
    return number % RULE_EVERY == 0


def record_of(number: int) -> Event:
    """A record, out of order by as much as is waited for."""
    time = FIRST + number - number % (DISORDER + 1)
    if is_rule(number):
        turn = number // RULE_EVERY
        return "ab"[turn % 2], (3 * turn + turn // 4) % 5, time
    return f"key {number * number // 7 % KEYS}", number * 7 % 11, time


class Recorded(MapFunction):
    """Makes the records; dies at some of them."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def map(self, value: int) -> Event:
        if value in DYING_NUMBERS and self._plan.strikes(BEFORE_PATTERNS):
            die()
        return record_of(value)


class Line(MapFunction):
    """A line for each result; dies at one of them."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def map(self, value: Any) -> str:
        if self._plan.strikes(BEHIND_PATTERNS):
            die()
        return str(tuple(value))


def found_in(events: DataStream[Any], changes: DataStream[Any]) -> dict[str, DataStream[Any]]:
    """The outputs of the rules."""
    rules = changes.map(rule_of, Types.STRING()).uid("rules").set_parallelism(1)
    patterns: PatternStream[Any] = CEP.dynamic_patterns(events.key_by("f0"), rules)
    found = patterns.side_output_rejected_rules(REJECTED).process(Told(), TOLD).uid("patterns")
    return {"matches": found, "timeouts": found.get_side_output(TIMED_OUT), "rejected": found.get_side_output(REJECTED)}


def expected_lines() -> dict[str, list[str]]:
    """The lines of matches and of timeouts, sorted."""
    records = [record_of(number) for number in range(COUNT)]
    events = [record for number, record in enumerate(records) if not is_rule(number)]
    found = expected(events, [record for number, record in enumerate(records) if is_rule(number)])
    lines = [sorted(str(row[:-1]) for rows in of_keys.values() for row in rows) for of_keys in found]
    return dict(zip(OUTPUTS, lines, strict=False))


def rejected() -> int:
    """The number of changes that are rejected."""
    return versions([record_of(number) for number in range(COUNT) if is_rule(number)])[1]
