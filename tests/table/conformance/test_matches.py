"""More cases of ``MATCH_RECOGNIZE`` with Flink's answers: quantifiers by skip strategies, refusals, times, plans."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.table.conformance.__main__ import told
from tests.table.conformance.cases import HERE

CASES = [json.loads(line) for line in gzip.decompress((HERE / "matches.jsonl.gz").read_bytes()).decode().splitlines()]
PARTS = 4

BEYOND_FLINK = ("mx-subset-define",)
"""Flink takes a name of SUBSET in DEFINE for that of a table."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_cases_are_equal(part: int) -> None:
    found = {case["id"]: told(case) for case in CASES[part::PARTS] if case["id"] not in BEYOND_FLINK}
    assert {name: text for name, text in found.items() if text is not None} == {}
