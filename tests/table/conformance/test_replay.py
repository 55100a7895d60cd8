"""Statements give what Flink gives: rows, changelogs in order, types, plans, errors."""

from __future__ import annotations

import os

import pytest

from tests.table.conformance.__main__ import told
from tests.table.conformance.cases import cases, groups, known_differences, neighbors

CHUNK = 40
"""So many cases are one test."""


def chunks() -> list[tuple[str, int]]:
    counts = {group: sum(case["group"] == group for case in cases()) for group in groups()}
    return [(group, start) for group, count in counts.items() for start in range(0, count, CHUNK)]


@pytest.mark.skipif("HEADRACE_SQL_CASES" in os.environ, reason="`make conformance` compares other cases")
@pytest.mark.parametrize(("group", "start"), chunks())
def test_cases_are_equal(group: str, start: int) -> None:
    left_out = set(known_differences(group))
    chosen = [case for case in cases() if case["group"] == group][start : start + CHUNK]
    found = {case["id"]: told(case) for case in chosen if case["id"] not in left_out}
    assert {name: text for name, text in found.items() if text is not None} == {}


@pytest.mark.parametrize("group", sorted({case["group"] for case in neighbors()}))
def test_neighbors_are_equal(group: str) -> None:
    found = {case["id"]: told(case) for case in neighbors() if case["group"] == group}
    assert {name: text for name, text in found.items() if text is not None} == {}
