"""A stream without a sink runs all the same, and a warning says where it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.common import Configuration, Types
from headrace.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG = OutputTag("odd", Types.LONG())


class Parted(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[object]:
        yield (TAG, value) if value % 2 else value


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records]
    return [message for message in told if message.startswith("nothing takes the results of ")]


def test_only_the_end_is_named_with_its_line(env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    numbers = env.from_sequence(1, 3)
    numbers.map(abs, Types.LONG()).name("tried").filter(bool).name("out")
    numbers.print()
    result = env.execute()
    assert result.get_accumulator_result("tried.numRecordsIn") == 3
    (warning,) = warnings(caplog)
    assert warning.startswith(f"nothing takes the results of 'out' ({__file__}:")
    assert "tried" not in warning


def test_the_next_job_begins_with_nothing(env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    numbers = env.from_sequence(1, 3)
    numbers.map(abs, Types.LONG())
    numbers.print()
    env.execute()
    caplog.clear()
    numbers.print()
    env.execute()
    assert warnings(caplog) == []


def test_a_stream_of_which_only_a_side_output_is_read(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    odd = env.from_sequence(1, 3).process(Parted(), Types.LONG()).get_side_output(TAG)
    with odd.execute_and_collect() as found:
        assert sorted(found) == [1, 3]
    assert warnings(caplog) == []
