"""Job ids, status, results, futures and serialization schemas."""

from __future__ import annotations

import concurrent.futures
import pickle
from typing import Any

import pytest

from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.job_execution_result import JobExecutionResult
from headrace.common.job_id import JobID
from headrace.common.job_status import JobStatus
from headrace.common.serialization import ByteArraySchema, Encoder, RowFieldExtractorSchema, SimpleStringSchema
from headrace.common.typeinfo import Types
from headrace.common.types import Row

HEX = "0123456789abcdef0123456789abcdef"


def test_job_ids() -> None:
    assert str(JobID(HEX)) == HEX
    assert JobID(HEX) == JobID(HEX)
    assert JobID() != JobID()
    for wrong in ("", "x", HEX.upper(), HEX + "0"):
        with pytest.raises(InvalidProgramError, match="32 hexadecimal digits"):
            JobID(wrong)


@pytest.mark.parametrize(
    ("status", "terminal", "globally"),
    [
        (JobStatus.RUNNING, False, False),
        (JobStatus.RESTARTING, False, False),
        (JobStatus.SUSPENDED, True, False),
        (JobStatus.FINISHED, True, True),
        (JobStatus.FAILED, True, True),
        (JobStatus.CANCELED, True, True),
    ],
)
def test_status(status: JobStatus, terminal: bool, globally: bool) -> None:
    assert status.is_terminal_state() is terminal
    assert status.is_globally_terminal_state() is globally


def test_results() -> None:
    result = JobExecutionResult(JobID(HEX), 1234, {"late": 3})
    assert result.get_job_id() == JobID(HEX)
    assert result.get_net_runtime() == 1234
    assert result.get_accumulator_result("late") == 3
    assert result.get_accumulator_result("none") is None
    assert result.get_all_accumulator_results() == {"late": 3}
    assert str(result) == f"Program execution finished: job {HEX} ran for 1234 ms\n- late: 3"


def test_futures() -> None:
    seen: list[Any] = []
    future = CompletableFuture[int]()
    future.add_done_callback(seen.append)
    assert not future.done()
    assert repr(future) == "CompletableFuture(not done)"
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    future.set_result(5)
    assert (future.result(), future.exception(), future.done(), future.cancelled()) == (5, None, True, False)
    assert seen == [future]
    assert CompletableFuture.completed("x").result() == "x"
    assert repr(CompletableFuture.completed({"x": 1})) == "CompletableFuture({'x': 1})"


def test_futures_that_fail_or_are_cancelled() -> None:
    failed = CompletableFuture[int]()
    failed.set_exception(ValueError("no"))
    assert isinstance(failed.exception(), ValueError)
    with pytest.raises(ValueError, match="no"):
        failed.result()
    cancelled = CompletableFuture[int](concurrent.futures.Future())
    assert cancelled.cancel()
    assert cancelled.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        cancelled.result()
    assert repr(cancelled) == "CompletableFuture(cancelled)"
    assert repr(failed) == "CompletableFuture(ValueError('no'))"


@pytest.mark.parametrize("charset", ["UTF-8", "latin-1", "utf-16"])
def test_string_schema(charset: str) -> None:
    schema = pickle.loads(pickle.dumps(SimpleStringSchema(charset)))
    assert schema.serialize("größe") == "größe".encode(charset)
    assert schema.deserialize("größe".encode(charset)) == "größe"
    assert schema.get_produced_type() == Types.STRING()
    assert not schema.is_end_of_stream("")


def test_schemas_refuse_what_they_cannot_write() -> None:
    with pytest.raises(InvalidTypeError, match="map"):
        SimpleStringSchema().serialize(5)
    with pytest.raises(InvalidTypeError, match="encode it first"):
        ByteArraySchema().serialize("x")
    with pytest.raises(InvalidTypeError, match="field 0 has to hold bytes"):
        RowFieldExtractorSchema(0).serialize(Row("x"))
    with pytest.raises(InvalidProgramError, match="not negative"):
        RowFieldExtractorSchema(-1)
    with pytest.raises(InvalidProgramError, match="no charset 'klingon'"):
        SimpleStringSchema("klingon")


def test_bytes_schemas() -> None:
    assert ByteArraySchema().serialize(bytearray(b"x")) == b"x"
    assert ByteArraySchema().deserialize(b"x") == b"x"
    assert ByteArraySchema().get_produced_type() == Types.BYTES()
    assert RowFieldExtractorSchema(1).serialize(Row(1, b"k")) == b"k"
    assert RowFieldExtractorSchema(1).serialize(Row(1, None)) == b""
    assert RowFieldExtractorSchema(1).serialize(None) == b""


def test_encoder() -> None:
    encoder = pickle.loads(pickle.dumps(Encoder.simple_string_encoder("latin-1")))
    assert encoder.encode("é") == b"\xe9\n"
    assert encoder.encode(("a", 1)) == b"('a', 1)\n"
    encode = encoder.for_type(Types.TUPLE([Types.STRING(), Types.BOOLEAN()]))
    assert [encode(("é", True)), encode(("a", None))] == [b"(\xe9,true)\n", b"(a,null)\n"]
