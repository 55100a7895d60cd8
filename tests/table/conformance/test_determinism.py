"""Non-deterministic updates are refused, resolved and told of as in Flink, and models are planned as there."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from typing import Any, Final

import pytest

from tests.table.conformance.__main__ import told
from tests.table.conformance.cases import HERE
from tests.table.conformance.replay import outcome

FLINKS: Final = re.compile(
    r"advice\[\d+\]: (\[(?:ADVICE|WARNING)\] (?:You might want|The column|The metadata|There exists)[^\n]*)"
)
"""The first lines of the advice that Flink gives, too."""


@cache
def answered(name: str) -> list[dict[str, Any]]:
    """The cases of a file, with the answers of Flink."""
    lines = gzip.decompress((HERE / f"{name}.jsonl.gz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines]


def determinism() -> list[dict[str, Any]]:
    return answered("determinism")


@pytest.mark.parametrize(("name", "kind"), [("determinism", "try"), ("models", "ml")])
def test_plans_are_equal(name: str, kind: str) -> None:
    found = {case["id"]: told(case) for case in answered(name) if case["id"].startswith(kind)}
    assert found
    assert {name: text for name, text in found.items() if text is not None} == {}


CHANGES: Final = [
    ("+I", [1, 10]),
    ("+I", [2, 20]),
    ("-U", [1, 10]),
    ("+U", [1, 20]),
    ("-U", [2, 20]),
    ("+U", [2, 30]),
    ("-D", [1, 20]),
    ("-D", [7, 10]),
]
FOUND: Final = {10: ["p", "q"], 20: ["r"], 30: []}


@pytest.mark.parametrize("table", ["PRIMARY KEY (a) NOT ENFORCED", ""])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_lookup_joins_take_back_what_they_found(kind: str, table: str) -> None:
    columns = ", ".join(filter(None, ["a INT, b INT, p AS PROCTIME()", table]))
    join = f"t {kind} dim FOR SYSTEM_TIME AS OF t.p AS d ON t.b = d.b"
    case = {
        "mode": "streaming",
        "options": {"table.optimizer.non-deterministic-update.strategy": "TRY_RESOLVE"},
        "setup": [
            f"CREATE TABLE t ({columns}) WITH ('connector' = 'oracle', 'changelog-mode' = 'I,UB,UA,D')",
            "CREATE TABLE dim (b INT, c STRING) WITH ('connector' = 'oracle', 'lookup' = 'true')",
            "CREATE TABLE r (a INT, b INT, c STRING) WITH ('connector' = 'oracle')",
        ],
        "inputs": [
            *(["dim", "+I", [b, name]] for b, names in FOUND.items() for name in names),
            *(["t", kind_of, row] for kind_of, row in CHANGES),
        ],
        "sql": [f"INSERT INTO r SELECT t.a, t.b, d.c FROM {join}"],
        "want": "run",
    }
    unknown = [[None]] if kind == "LEFT JOIN" else [[]]
    names = (FOUND[row[1]] or unknown[0] for _, row in CHANGES[:-1])
    rows = zip(CHANGES, [*names, *unknown], strict=True)
    expected = [[kind_of, [*row, name]] for (kind_of, row), found in rows for name in found]
    assert outcome(case)["sinks"]["r"]["changelog"] == expected


def test_refusals_have_the_words_of_flink() -> None:
    for case in determinism():
        if case["id"].startswith("try") and case["expect"]["kind"] == "error":
            first, *rest = outcome(case)["message"].partition(": ")[2].splitlines()
            assert any(line.startswith("What to do: ") for line in rest)
            assert first == case["expect"]["message"].rstrip(), case["id"]


def test_advice_is_that_of_flink_and_more() -> None:
    for case in determinism():
        if case["id"].startswith("adv"):
            found, expected = (FLINKS.findall(text) for text in (outcome(case)["text"], case["expect"]["text"]))
            assert found == expected, case["id"]
