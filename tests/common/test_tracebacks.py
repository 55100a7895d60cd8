"""What leaves headrace shows the lines of the program; ``HEADRACE_TRACEBACK=full`` shows all."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pyarrow as pa
import pytest

import headrace
import headrace.datastream
from headrace.client import running
from headrace.common import Configuration, Encoder, Types
from headrace.common.errors import (
    TRACEBACK,
    CommitRefusedError,
    HeadraceError,
    UserFunctionError,
    hides_engine,
    program_lines,
    showing_all,
    shows_all,
)
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors import FileSink, NumberSequenceSource
from headrace.datastream.formats.csv import CsvSchema
from headrace.datastream.window import EventTimeSessionWindows
from headrace.expressions import col
from headrace.testing import JobHarness


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRACEBACK, raising=False)


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def inverse(value: Any) -> Any:
    return _divided(1, value)


def _divided(one: Any, other: Any) -> Any:
    return one // other


def execute() -> None:
    env = environment()
    env.from_collection([0]).map(inverse).print()
    env.execute()


def wait_for_the_client() -> None:
    env = environment()
    env.from_collection([0]).map(inverse).print()
    env.execute_async().get_job_execution_result().result()


def collect() -> None:
    with environment().from_collection([0]).map(inverse).execute_and_collect() as results:
        list(results)


def drive_a_harness() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", Types.LONG()).map(inverse))

    with JobHarness(build) as job:
        job.push("in", 0)
        job.run_epoch()


BOUNDARIES = [execute, wait_for_the_client, collect, drive_a_harness]


def failure_of(work: Any) -> UserFunctionError:
    with pytest.raises(UserFunctionError) as failure:
        work()
    return failure.value


@pytest.mark.parametrize("work", BOUNDARIES)
def test_a_failure_shows_the_lines_of_the_program_alone(work: Any) -> None:
    error = failure_of(work)
    text = "".join(traceback.format_exception(error))
    files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
    assert files == {__file__}
    assert "src/headrace" not in text
    assert "in inverse\n" in text
    assert "in _divided\n" in text
    assert text.count("ZeroDivisionError") == 2


def test_a_key_function_shows_its_own_lines() -> None:
    def account() -> None:
        env = environment()
        env.from_collection([0]).key_by(inverse, Types.LONG()).map(inverse).print()
        env.execute()

    text = "".join(traceback.format_exception(failure_of(account)))
    assert "in inverse\n" in text
    assert "RecordError" not in text
    assert text.count("ZeroDivisionError") == 2


@pytest.mark.parametrize("work", BOUNDARIES)
def test_all_of_it_when_that_is_wanted(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "full")
    text = "".join(traceback.format_exception(failure_of(work)))
    assert "in raise_reported\n" in text
    assert "operators/stateless.py" in text


def test_a_notebook_shows_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure_of(execute)
    assert error._render_traceback_() == f"UserFunctionError: {error}".splitlines()
    monkeypatch.setenv(TRACEBACK, "FULL")
    assert error._render_traceback_()[0] == "Traceback (most recent call last):"


def test_causes_are_trimmed_as_well() -> None:
    error = CommitRefusedError("gone")

    @hides_engine
    def commit() -> None:
        try:
            raise OSError("away")
        except OSError as away:
            raise error from away

    with pytest.raises(CommitRefusedError) as refused:
        commit()
    assert isinstance(refused.value.__cause__, OSError)
    assert [frame.name for frame in refused.traceback][-1:] == ["commit"]


OWN = (
    lambda: environment().set_parallelism(0),
    lambda: headrace.nonsense,  # type: ignore[attr-defined]
    lambda: exec("import headrace.table.descriptors"),
)


@pytest.mark.parametrize("mistake", OWN)
def test_what_the_program_was_handling_keeps_every_line(mistake: Any) -> None:
    own, told = None, []
    try:
        json.loads("{")
    except ValueError as error:
        own, told = error, traceback.format_exception(error)
        with pytest.raises(HeadraceError):
            mistake()
    assert traceback.format_exception(own) == told
    assert any("json" in line for line in told)


MISTAKES = [
    lambda: environment().from_collection([1]).keyBy(inverse),  # type: ignore[attr-defined]
    lambda: CsvSchema.builder().set_column_separator("ab").add_string_column("a").build(),
    lambda: FileSink.for_row_format("none://x", Encoder.simple_string_encoder()),
    lambda: NumberSequenceSource(3, 1),
    lambda: environment().from_dataframe(pa.table({"a": [1]})),
    lambda: col(3.5),  # type: ignore[arg-type]
    lambda: environment().from_collection([1]).map(3),  # type: ignore[call-overload]
    lambda: environment().from_collection([1]).key_by(inverse).window(5),  # type: ignore[arg-type]
    lambda: environment().from_collection([1]).print().uid(""),
    lambda: environment().set_parallelism(0),
    lambda: environment().from_collection([1]).key_by(inverse).cache(),
    lambda: Types.TUPLE("abc"),
    lambda: headrace.datastream.TimeCharacteristic,  # type: ignore[attr-defined]
    lambda: headrace.datastream.nonsense,  # type: ignore[attr-defined]
    lambda: headrace.nonsense,  # type: ignore[attr-defined]
    lambda: exec("import headrace.table.descriptors"),
    lambda: exec("from headrace.datastream.expressions import col"),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_while_a_job_is_built_shows_the_lines_of_the_program_alone(
    mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HeadraceError) as found:
        mistake()
    assert {frame.filename for frame in traceback.extract_tb(found.value.__traceback__)} <= {__file__, "<string>"}
    monkeypatch.setenv(TRACEBACK, "full")
    with pytest.raises(HeadraceError) as found:
        mistake()
    files = {frame.filename for frame in traceback.extract_tb(found.value.__traceback__)}
    assert any("src/headrace" in file for file in files)


def test_the_constructor_that_a_dataclass_has_been_given_is_no_line_of_the_program() -> None:
    with pytest.raises(HeadraceError, match="gap > 0") as found:
        EventTimeSessionWindows.with_gap(0)
    assert {frame.filename for frame in traceback.extract_tb(found.value.__traceback__)} == {__file__}


def test_what_is_no_error_of_headrace_keeps_every_line() -> None:
    @hides_engine
    def fail() -> None:
        _divided(1, 0)

    with pytest.raises(ZeroDivisionError) as failure:
        fail()
    assert [entry.name for entry in failure.traceback][1:] == ["call", "fail", "_divided"]


def test_arguments_that_a_method_does_not_take_are_the_caller_s_mistake() -> None:
    for mistake in (lambda: environment().set_parallelism(), lambda: NumberSequenceSource(1, 2, 3)):  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="positional argument") as failure:
            mistake()
        assert [entry.name for entry in failure.traceback][1:] == ["<lambda>"]


def test_a_type_error_behind_the_call_keeps_every_line() -> None:
    @hides_engine
    def fail() -> None:
        _divided(1, "a")

    with pytest.raises(TypeError) as failure:
        fail()
    assert [entry.name for entry in failure.traceback][1:] == ["call", "fail", "_divided"]


def test_an_interruption_shows_where_the_program_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "result_of", interrupted)
    with pytest.raises(KeyboardInterrupt) as failure:
        execute()
    assert [entry.name for entry in failure.traceback][1:] == ["execute", "interrupted"]


def test_one_line_of_the_program_is_in_the_message_already() -> None:
    with pytest.raises(ZeroDivisionError) as failure:
        _divided(1, 0)
    assert "in _divided\n" in program_lines(failure.value)
    assert failure.value.__traceback__ is not None
    assert program_lines(failure.value.with_traceback(failure.value.__traceback__.tb_next)) == ""


def test_showing_all_is_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with showing_all(False):
        assert not shows_all()
    with showing_all(True):
        assert shows_all()
    assert not shows_all()
    monkeypatch.setenv(TRACEBACK, "some")
    with showing_all(True):
        assert shows_all()
    assert not shows_all()
