"""What windows hold can be read only by windows of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import max, sum
from headrace.testing import JobHarness
from headrace.time.windows import TumblingEventTimeWindows

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])


def windows(stream: Any, size: int = 10, key: str = "f0") -> Any:
    return stream.key_by(key).window(TumblingEventTimeWindows.of(size))


def larger(one: Any, other: Any) -> Any:
    return one if one[1] > other[1] else other


DECLARATIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda stream: windows(stream).aggregate(sum("f1")),
    "max": lambda stream: windows(stream).aggregate(max("f1")),
    "both": lambda stream: windows(stream).aggregate(sum("f1"), max("f1")),
    "longer": lambda stream: windows(stream, 20).aggregate(sum("f1")),
    "another key": lambda stream: windows(stream, key="f1").aggregate(sum("f1")),
    "reduced": lambda stream: windows(stream).reduce(larger),
    "elements": lambda stream: windows(stream).apply(lambda key, window, rows: [len(list(rows))], Types.LONG()),
}


def job(name: str) -> Callable[[JobHarness], None]:
    def build(harness: JobHarness) -> None:
        harness.add_sink("out", DECLARATIONS[name](harness.add_source("events", EVENT)).uid("windows"))

    return build


@pytest.mark.parametrize("before", DECLARATIONS)
def test_another_declaration_is_refused(before: str) -> None:
    with JobHarness(job(before)) as harness:
        harness.push("events", ("a", 7), 1)
        checkpoint = harness.checkpoint()
    for after in DECLARATIONS:
        with JobHarness(job(after), restore=checkpoint) as harness:
            harness.push("events", ("a", 7), 2)
            if before == after:
                harness.finish()
                assert harness.results("out")
            else:
                with pytest.raises(StateMigrationError, match="stored with"):
                    harness.run_epoch()
