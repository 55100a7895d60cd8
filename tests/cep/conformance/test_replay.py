"""Patterns find what Flink finds: matches and timeouts in order, and what is left afterwards."""

from __future__ import annotations

import json
import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cep.conformance.__main__ import told
from tests.cep.conformance.cases import GROUPS, cases
from tests.cep.conformance.driver import Driver
from tests.cep.conformance.operator_driver import ExpressionDriver, OperatorDriver
from tests.cep.conformance.patterns import are_all_expressions
from tests.cep.conformance.replay import Drive

CHUNK = 500
"""So many cases are one test."""


def chunks() -> list[tuple[str, int]]:
    return [(group, start) for group in GROUPS for start in range(0, len(cases(group)), CHUNK)]


@pytest.mark.skipif("HEADRACE_CEP_CASES" in os.environ, reason="`make conformance` compares other cases")
@pytest.mark.parametrize(("group", "start"), chunks())
def test_cases_are_equal(group: str, start: int) -> None:
    chosen = cases(group)[start : start + CHUNK]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case["id"]: told(case, Driver) for case in chosen}
    assert len(found) == len(chosen) > 0
    assert {name: text for name, text in found.items() if text is not None} == {}


DRAWN = [json.loads(line) for line in (Path(__file__).parent / "drawn.jsonl").read_text().splitlines()]
"""Cases that were drawn at random, and for which something was once not equal; and what watermarks decide."""


@pytest.mark.parametrize("drive", [Driver, OperatorDriver, partial(OperatorDriver, cut=1)])
@pytest.mark.parametrize("case", DRAWN, ids=lambda case: case["id"])
def test_drawn_cases_are_equal(case: dict[str, Any], drive: Drive) -> None:
    assert told(case, drive) is None


SAMPLES = [("hand-written", 6, 1 << 30), ("hand-written", 16, 1), ("random", 45, 1 << 30), ("random", 90, 2)]
"""Of each group so manieth case, in epochs of so many items; `make conformance` compares all."""


@pytest.mark.skipif("HEADRACE_CEP_CASES" in os.environ, reason="`make conformance` compares other cases")
@pytest.mark.parametrize(("group", "every", "cut"), SAMPLES)
def test_the_operator_is_equal_too(group: str, every: int, cut: int) -> None:
    """With its state: what waits, the partial matches and the timers go through checkpoints."""
    chosen = cases(group)[cut % every :: every]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case["id"]: told(case, partial(OperatorDriver, cut=cut)) for case in chosen}
    assert len(found) == len(chosen) > 0
    assert {name: text for name, text in found.items() if text is not None} == {}


SAMPLES_OF_EXPRESSIONS = [("hand-written", 9, 2), ("random", 50, 1 << 30), ("random", 50, 1)]


@pytest.mark.skipif("HEADRACE_CEP_CASES" in os.environ, reason="`make conformance` compares other cases")
@pytest.mark.parametrize(("group", "every", "cut"), SAMPLES_OF_EXPRESSIONS)
def test_expressions_are_equal_to_the_functions_of_flink(group: str, every: int, cut: int) -> None:
    """Of the event and of those that were taken, wherever a case has nothing but such conditions."""
    chosen = [case for case in cases(group) if are_all_expressions(case)][cut % every :: every]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case["id"]: told(case, partial(ExpressionDriver, cut=cut)) for case in chosen}
    assert len(found) == len(chosen) > 9
    assert {name: text for name, text in found.items() if text is not None} == {}
