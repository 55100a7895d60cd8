"""The sinks that only the living driver shows."""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

import pytest

from headrace.common.errors import CommitRefusedError, OutputClosedError
from headrace.common.typeinfo import Types
from headrace.common.types import Row, RowKind
from headrace.connectors.driver_sink import CollectSink, PrintSink
from headrace.connectors.sink import CommitterContext
from tests.connectors.harness import SinkRun


@pytest.mark.parametrize(
    ("identifier", "parallelism", "lines"),
    [
        (None, 1, ["a", "b"]),
        ("id", 1, ["id> a", "id> b"]),
        (None, 2, ["1> a", "2> b"]),
        ("id", 2, ["id:1> a", "id:2> b"]),
    ],
)
def test_lines_begin_as_in_flink(
    capsys: pytest.CaptureFixture[str], identifier: str | None, parallelism: int, lines: list[str]
) -> None:
    SinkRun(PrintSink(identifier), Types.STRING(), parallelism).run_epoch(["a", "b"])
    assert capsys.readouterr().out.splitlines() == lines


def test_records_are_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row(1, "a"), Row.of_kind(RowKind.DELETE, 2, None), (1, "a"), None, {"a": 1}]
    SinkRun(PrintSink(to_stderr=True), Types.PICKLED_BYTE_ARRAY()).run_epoch(rows)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["<Row(1, 'a')>", "<-D Row(2, None)>", "(1, 'a')", "None", "{'a': 1}"]


@pytest.mark.parametrize(("is_declared", "line"), [(True, "(1,null)"), (False, "(1, None)")])
def test_a_declared_type_is_printed_as_flink_spells_it(
    capsys: pytest.CaptureFixture[str], is_declared: bool, line: str
) -> None:
    sink = PrintSink(is_declared=is_declared)
    SinkRun(sink, Types.TUPLE([Types.INT(), Types.STRING()])).run_epoch([(1, None)])
    assert capsys.readouterr().out == f"{line}\n"


def test_an_epoch_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    run = SinkRun(PrintSink(), Types.LONG())
    committables = run.run_epoch([1])
    run.committer.commit(run.epoch, committables, 0)
    assert capsys.readouterr().out == "1\n"


class Closed:
    """A stream of the program's own, whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("stream", [Closed(), type("InMemory", (Closed, io.StringIO), {})()])
def test_a_closed_stream_without_a_file(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(OutputClosedError, match="the reader of what is printed has gone"):
        SinkRun(PrintSink(), Types.LONG()).run_epoch([1])


class Plain:
    """All that ``print`` asks of a stream, such as programs put in the place of the standard output."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        self.text += "."


def test_what_stands_for_the_standard_output_is_printed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, run = Plain(), SinkRun(PrintSink(), Types.LONG())
    monkeypatch.setattr(sys, "stdout", plain)
    run.run_epoch([1, 2])
    monkeypatch.setattr(sys, "stdout", None)
    run.run_epoch([3])
    assert plain.text == "1\n2\n."


@pytest.mark.parametrize("kind", [Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
def test_records_are_handed_over_once(kind: Any) -> None:
    received: list[list[int]] = []
    sink = CollectSink(received.append)
    run = SinkRun(sink, kind, parallelism=2)
    committables = run.run_epoch([1, 2, 3])
    run.committer.commit(run.epoch, committables, 0)
    run.run_epoch([])
    run.run_epoch([4])
    run.new_committer().commit(run.epoch, committables, 0)
    assert received == [[1, 3, 2], [4]]


def test_a_collect_sink_belongs_to_its_process() -> None:
    pickled = pickle.dumps(CollectSink(print))
    with pytest.raises(CommitRefusedError, match="process"):
        pickle.loads(pickled).create_committer(CommitterContext("job", "sink", Types.LONG()))
