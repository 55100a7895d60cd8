"""Runs a case, and says where it differs from Flink: in what comes out for each key, in order, and in what is left.

Where Flink hangs, fails by its own mistake or drops what was written, the pattern is refused, or done as it was
written. Such cases count as equal: ``BETTER`` tells them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, Protocol

from headrace.common.errors import HeadraceError
from headrace.operators.pattern.automaton import Automaton
from tests.cep.conformance.driver import Driver

BETTER: Final = (
    "a group that repeats has only optional stages",
    "Specifying a pattern with an optional path to NOT condition",
    "within() on the last stage of a group would be lost",
    "of a group would be lost: give it to the begin() of the whole pattern",
    "would be lost: call it after",
    "NotFollowedBy is not supported as a last part of a group",
)
"""What refusals say that Flink does not have."""

MISTAKES: Final = ("hang", "java.lang.NullPointerException")
"""How Flink fails where it is wrong."""

_AT_RUN = "run"
_SHOWN = 25
"""So many characters of a message are compared: some end in ids of events, or in Java's text of an object."""


class Drives(Protocol):
    """Whatever runs a case."""

    automaton: Automaton
    out: list[list[Any]]
    step: int

    def run(self) -> None:
        """Runs it."""

    def left(self) -> dict[str, list[int]]:
        """What is left of each key."""


Drive = Callable[[dict[str, Any]], Drives]


def difference(case: dict[str, Any], drive: Drive = Driver) -> str | None:
    """What differs from Flink; None where nothing does."""
    expected = case["expected"]
    try:
        driver = drive(case)
    except HeadraceError as error:
        return _difference_of_refusal(expected, str(error))
    try:
        driver.run()
    except Exception as error:
        return _difference_of_failure(expected, driver, error)
    if "error" in expected:
        return None if expected["error"]["type"] in MISTAKES else f"Flink fails: {expected['error']}"
    return _difference_of_results(case, driver)


def is_refused_on_purpose(case: dict[str, Any]) -> bool:
    """Whether it is refused although Flink takes it."""
    try:
        Driver(case)
    except HeadraceError as error:
        told = case["expected"].get("error", {"at": _AT_RUN})
        return told["at"] == _AT_RUN and any(reason in str(error) for reason in BETTER)
    return False


def _difference_of_refusal(expected: dict[str, Any], message: str) -> str | None:
    error = expected.get("error")
    if error is not None and error["at"] != _AT_RUN:
        return None if error["message"][:_SHOWN] in message else f"Flink refuses {error['message']!r}, not {message!r}"
    return None if any(reason in message for reason in BETTER) else f"refused: {message}"


def _difference_of_failure(expected: dict[str, Any], driver: Drives, error: Exception) -> str | None:
    told = expected.get("error")
    if told is None or told["at"] != _AT_RUN or told["message"][:_SHOWN] not in str(error):
        return f"fails with {error!r}, not with {told}"
    if told["step"] != driver.step:
        return f"fails at step {driver.step}, not {told['step']}"
    # Which keys came before the one that failed is nowhere promised.
    before = [[one for one in out if one[1] < driver.step] for out in (expected["out"], driver.out)]
    return _first_difference(_by_key(before[0]), _by_key(before[1]))


def _difference_of_results(case: dict[str, Any], driver: Drives) -> str | None:
    expected = case["expected"]
    if driver.automaton.can_match_nothing != expected["empty_match_possible"]:
        return f"can match nothing: {driver.automaton.can_match_nothing}"
    left = {key: numbers[:3] for key, numbers in expected["left"].items()}
    return _first_difference(_by_key(expected["out"]), _by_key(driver.out)) or (
        None if driver.left() == left else f"left {driver.left()}, not {left}"
    )


def _by_key(out: list[list[Any]]) -> dict[str, list[Any]]:
    by_key = defaultdict(list)
    for kind, step, key, timestamp, stages in out:
        # Flink cuts the names of stages at a colon.
        by_key[key].append((kind, step, timestamp, [(name.split(":")[0], ids) for name, ids in stages.items()]))
    return by_key


def _first_difference(expected: dict[str, list[Any]], got: dict[str, list[Any]]) -> str | None:
    for key in sorted({*expected, *got}):
        ours, theirs = got.get(key, []), expected.get(key, [])
        for at in range(max(len(ours), len(theirs))):
            if ours[at : at + 1] != theirs[at : at + 1]:
                return f"key {key}, output {at}: {ours[at : at + 1]}, not {theirs[at : at + 1]}"
    return None
