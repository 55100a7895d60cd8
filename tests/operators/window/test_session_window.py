"""Session windows with built-in aggregates give what Flink's rules give record by record, however the input is cut."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_against_model import COLUMNAR, described
from test_any_window_against_model import RANKS, run_driver, run_model
from window_harness import Driver

from headrace.operators.window import session_window
from headrace.operators.window.session_window import SessionWindowOperator
from headrace.windowing.assigners.sessions import EventTimeSessionWindows
from tests.windowing.model import Fired, WindowModel
from tests.windowing.scenarios import Epoch, inputs


def numbered(epochs: list[Epoch]) -> list[Epoch]:
    """The same elements, each with the number of its arrival for a value."""
    count = iter(range(10**6))
    return [
        replace(epoch, batches=tuple(tuple(replace(e, value=next(count)) for e in batch) for batch in epoch.batches))
        for epoch in epochs
    ]


def expected(fired: Fired) -> tuple[Any, ...]:
    values = sorted(float(row["value"]) for row in fired.values)
    row = described(fired.key, fired.window.start, fired.window.end, values)
    return (fired.stamp, fired.window.max_timestamp(), *row)


def driver(gap: int, tag: str | None = "late") -> Driver:
    return Driver(partial(SessionWindowOperator, COLUMNAR, gap, tag))


@pytest.mark.parametrize("pending", [1, 3, 1 << 19])
@settings(max_examples=50, deadline=None)
@given(gap=st.integers(1, 12), epochs=inputs())
def test_operator_equals_model(pending: int, gap: int, epochs: list[Epoch]) -> None:
    epochs = numbered(epochs)
    model = WindowModel(EventTimeSessionWindows.with_gap(gap), rank=RANKS.__getitem__)
    run_model(model, epochs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_window, "_PENDING_ROWS", pending)
        run, counting = driver(gap), driver(gap, None)
        run_driver(run, epochs)
        run_driver(counting, epochs)
    assert run.out.rows == counting.out.rows == [expected(fired) for fired in model.fired]
    assert [row[-1] for row in run.out.side("late")] == [row["value"] for row in model.late]
    assert counting.counters.get("numLateRecordsDropped", 0) == len(model.late)
    assert not any(store.rows for store in run.state.stores.values()), "what has fired is not kept"
