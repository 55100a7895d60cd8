"""The first job of the README."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.processes import Ended

Run = Callable[..., Ended]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--runtime", "local"), id="local"),
        pytest.param(("--master", "local[2]"), id="spark", marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_words_are_counted(options: tuple[str, ...], run_example: Run) -> None:
    lines = run_example("word_count.py", options=("-p", "1", *options)).output.splitlines()
    assert len(lines) == 15
    assert "('to', 4)" in lines
    assert "('be', 2)" in lines
    assert "('be', 3)" not in lines
