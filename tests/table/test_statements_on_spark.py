"""One job of many statements on Spark: what each writes is what the local runtime writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.table.statements import FEW, STATEMENTS, environment, fill, insert, outcome

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("names", [FEW, pytest.param(list(STATEMENTS), marks=pytest.mark.slow)])
def test_statements_write_what_they_write_locally(spark: Any, tmp_path: Path, names: list[str]) -> None:
    found = []
    for runtime in ("spark", "local"):
        folder = tmp_path / runtime
        fill(folder)
        insert(environment(folder, runtime), names).wait()
        found.append(outcome(folder, names))
    assert found[0] == found[1]
    assert all(found[0].values())
