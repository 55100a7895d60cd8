"""What is said of failures in tasks: which operator, where, and what to do."""

from __future__ import annotations

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import FunctionRefusedError, StateCorruptedError, StateMigrationError
from headrace.common.time import Time
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.runtime.task.messages import TaskFailure
from headrace.testing import JobHarness
from tests.first_epochs import first_epoch

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def summing(seconds: int) -> object:
    def build(job: JobHarness) -> None:
        windows = job.add_source("in", PAIR).key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(seconds)))
        job.add_sink(
            "out", windows.reduce(lambda one, other: (one[0], one[1] + other[1])).name("totals").uid("totals-of-keys")
        )

    return build


def test_the_operator_is_named_whose_state_does_not_fit() -> None:
    with JobHarness(summing(10)) as job:
        job.push("in", ("a", 1), 0)
        checkpoint = job.checkpoint()
    with pytest.raises(StateMigrationError, match=r"operator 'totals' \(uid totals-of-keys\): .*size in milli"):
        first_epoch(summing(20), checkpoint)


def test_a_damaged_state_file_is_told_with_its_folder_and_what_to_do() -> None:
    error = TaskFailure.of(StateCorruptedError("the state file 1.state is damaged"), "/checkpoints/state").to_error()
    assert isinstance(error, StateCorruptedError)
    assert str(error).startswith("the state file 1.state is damaged (in /checkpoints/state). Put it back as it was")


@pytest.mark.parametrize("declared", [Types.LONG(), Types.TUPLE([Types.LONG(), Types.STRING()])], ids=str)
def test_what_is_printed_has_to_fit_the_declared_type(declared: object) -> None:
    configuration = Configuration().set_string("headrace.runtime", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_sequence(1, 1).map(lambda number: "one", declared).name("made").print()
    with pytest.raises(FunctionRefusedError, match=r"(?s)operator 'made' .*InvalidTypeError: .*'one'"):
        env.execute()
