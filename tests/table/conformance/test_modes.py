"""Batch and streaming mode end in the same table, for each query of the corpus that Flink runs."""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.table.conformance.cases import cases
from tests.table.conformance.modes import difference_of_modes

CHUNK: Final = 40

NOT_EQUAL: Final = {
    "without rows, a streaming aggregate has no row, and one in batch mode has": (
        "ag-retract-max-ties cl-cdc-dups qy-scalar-subquery-empty qy-scalar-subquery-empty-batch"
    ),
    "changes themselves are read, which batch mode does not have": (
        "cl-from-changelog cl-from-changelog-op cl-to-changelog"
    ),
    "streaming mode refuses it, as in Flink": (
        "ov-dist-batch ov-frames-batch ov-nav-batch qy-order-nulls-batch qy-order-nulls-desc-batch "
        "qy-order-nulls-first-desc-batch qy-order-ordinal-batch tn-dense-batch tn-rank-fn-batch"
    ),
    "batch mode refuses it, as in Flink": (
        "jn-temporal-append-inner jn-temporal-append-left jn-temporal-cond jn-temporal-retract-inner "
        "jn-temporal-retract-left jn-temporal-upsert-left jn-temporal-view-inner wi-current-watermark wi-late-filter "
        "wi-group-session-key wi-session-agg wi-session-key-negative wi-session-negative"
    ),
    "processing time stands still in batch mode: all rows are of one time": "ov-proctime tn-dedup-proctime-last",
    "the order of rows of one time, or of equal rank, is nobody's promise": (
        "ov-lag tn-dedup-rowtime-last-agg tn-dedup-rowtime-last-batch tn-dedup-to-sink wi-topn"
    ),
    "rows of one key reach the sink in the order of time, or without the kinds that end them": (
        "sk-append-to-key-dedup sk-having-to-upsert-sink sk-wm-append-nothing"
    ),
}
"""Why tables differ, with the ids of cases. Flink's differ in each of them as well, but for wi-topn."""


def compared() -> list[dict[str, object]]:
    """The cases whose last statement gives rows."""
    kinds = ("changelog", "rows", "sink")
    return [case for case in cases() if case["want"] == "run" and case["inputs"] and case["expect"]["kind"] in kinds]


@pytest.mark.skipif("HEADRACE_SQL_CASES" in os.environ, reason="`make conformance` compares other cases")
@pytest.mark.parametrize("start", range(0, len(compared()), CHUNK))
def test_modes_end_in_the_same_table(start: int) -> None:
    left_out = {name for names in NOT_EQUAL.values() for name in names.split()}
    found = {str(case["id"]): difference_of_modes(case) for case in compared()[start : start + CHUNK]}
    different = {name: text for name, text in found.items() if text is not None}
    assert {name: text for name, text in different.items() if name not in left_out} == {}
    assert sorted(different) == sorted(left_out & found.keys()), "a case is left out, and its tables are equal"
