"""The queries of Nexmark end in the tables that Flink's end in, over the events of an auction house."""

from __future__ import annotations

from typing import Any

import pytest

from tests.table.conformance.cases import nexmark
from tests.table.conformance.replay import difference


@pytest.mark.parametrize("case", nexmark(), ids=lambda case: str(case["id"]))
def test_queries_end_in_the_same_table(case: dict[str, Any]) -> None:
    """Also that q6 is refused, and what batch mode refuses."""
    assert difference(case, one_by_one=False) is None
