"""Patterns find what Flink finds: matches and timeouts in order, and what is left afterwards."""

from __future__ import annotations

import os
import warnings

import pytest

from tests.cep.conformance.__main__ import told
from tests.cep.conformance.cases import GROUPS, cases

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
        found = {case["id"]: told(case) for case in chosen}
    assert len(found) == len(chosen) > 0
    assert {name: text for name, text in found.items() if text is not None} == {}
