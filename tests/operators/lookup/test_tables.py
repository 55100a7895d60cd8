"""When a table is read again."""

from __future__ import annotations

import pytest

from headrace.operators.lookup.readers import ReloadTrigger

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("trigger", "read_at", "due"),
    [
        (ReloadTrigger(), 0, None),
        (ReloadTrigger(HOUR), 5, 5 + HOUR),
        (ReloadTrigger(24 * HOUR, at=10 * HOUR), 9 * HOUR, 10 * HOUR),
        (ReloadTrigger(24 * HOUR, at=10 * HOUR), 11 * HOUR, 34 * HOUR),
        (ReloadTrigger(48 * HOUR, at=10 * HOUR), 11 * HOUR, 58 * HOUR),
    ],
)
def test_a_table_is_read_again_when_it_is_time(trigger: ReloadTrigger, read_at: int, due: int | None) -> None:
    times = range(read_at, read_at + 60 * HOUR, 60_000) if due is None else (due - 1, due)
    found = [time for time in times if trigger.is_due(read_at, time)]
    assert found == ([] if due is None else [due])
