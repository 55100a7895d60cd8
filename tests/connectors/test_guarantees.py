"""What sinks and sources promise, and what is refused or told where it cannot be kept."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Encoder, WatermarkStrategy
from headrace.common.batch import Batch
from headrace.common.configuration import Configuration
from headrace.common.errors import CheckpointError, InvalidProgramError
from headrace.connectors.driver_sink import PrintSink
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.sink import Committer, CommitterContext, DeliveryGuarantee, Sink, SinkWriter, WriterContext
from headrace.connectors.source import Source
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink

RECORDS = 6


class Straight(Sink):
    """Appends to a file as soon as it is told to write; with a committer only where it is EXACTLY_ONCE."""

    def __init__(
        self, path: Path, guarantee: DeliveryGuarantee, *, committables: Sequence[Any] = (), marker: Path | None = None
    ) -> None:
        self.path, self.guarantee, self.committables, self.marker = path, guarantee, committables, marker

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self.guarantee

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(self)


class _Writer(SinkWriter):
    """Fails once where the sink has a marker: when it has written the last record."""

    def __init__(self, sink: Straight) -> None:
        self.sink = sink
        self.last: Any = None

    def write(self, batch: Batch) -> None:
        self.last = batch.rows[-1]
        with self.sink.path.open("a") as file:
            file.writelines(f"{row}\n" for row in batch.rows)

    def prepare_commit(self) -> Sequence[Any]:
        marker = self.sink.marker
        if marker is not None and self.last == RECORDS and not marker.exists():
            marker.touch()
            raise OSError("the first attempt")
        return self.sink.committables


class Refusing(Straight):
    """With a committer that never succeeds where it is EXACTLY_ONCE."""

    def create_committer(self, context: CommitterContext) -> Committer | None:
        return _Refuses() if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


class _Refuses(Committer):
    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        raise ValueError("not now")


class Lossy(NumberSequenceSource):
    can_replay = False  # type: ignore[assignment]


def environment(**settings: str) -> StreamExecutionEnvironment:
    usual = {
        "headrace.runtime": "local",
        "parallelism.default": "1",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "headrace.epoch.max-records": "4",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.first-records": "4",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(usual | settings))


def run(sink: Sink, source: Source | None = None, **settings: str) -> None:
    env = environment(**settings)
    source = source or NumberSequenceSource(1, RECORDS)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.sink_to(sink).name("out").uid("out")
    env.execute()


def written(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().splitlines()]


def test_what_sinks_promise(tmp_path: Path) -> None:
    files = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    assert files.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert PrintSink().delivery_guarantee is DeliveryGuarantee.NONE


def test_a_sink_without_a_committer_writes_at_least_once(tmp_path: Path) -> None:
    out, marker = tmp_path / "out", tmp_path / "marker"
    run(Straight(out, DeliveryGuarantee.AT_LEAST_ONCE, marker=marker))
    assert marker.exists()
    assert written(out) == [1, 2, 3, 4, 5, 6, 5, 6], "the second epoch was run twice, and nothing is missing"


def test_exactly_once_is_refused_without_a_committer(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="Straight promises EXACTLY_ONCE and has no committer"):
        run(Straight(tmp_path / "out", DeliveryGuarantee.EXACTLY_ONCE))
    assert not (tmp_path / "out").exists()


def test_exactly_once_is_refused_where_no_committer_is_made(tmp_path: Path) -> None:
    class Forgets(Straight):
        def create_committer(self, context: CommitterContext) -> None:
            return None

    with pytest.raises(InvalidProgramError, match="sink 'out': Forgets promises EXACTLY_ONCE"):
        run(Forgets(tmp_path / "out", DeliveryGuarantee.EXACTLY_ONCE))
    assert not (tmp_path / "out").exists()


def test_committables_without_a_committer_are_refused(tmp_path: Path) -> None:
    sink = Straight(tmp_path / "out", DeliveryGuarantee.AT_LEAST_ONCE, committables=["a file"])
    with pytest.raises(InvalidProgramError, match=r"the writer of sink 'out' gave .* 'a file', and the sink has no"):
        run(sink)


def test_a_guarantee_is_not_lowered_while_output_waits_for_its_committer(tmp_path: Path) -> None:
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    settings["restart-strategy.type"] = "none"
    with pytest.raises(Exception, match="not now"):
        run(Refusing(tmp_path / "out", DeliveryGuarantee.EXACTLY_ONCE, committables=["a file"]), **settings)
    with pytest.raises(CheckpointError, match=r"has output of sink 'out' \(uid out\) that is not shown yet"):
        run(Refusing(tmp_path / "out", DeliveryGuarantee.AT_LEAST_ONCE), **settings)


def test_a_source_that_cannot_be_read_again_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run(Straight(tmp_path / "out", DeliveryGuarantee.AT_LEAST_ONCE), source=Lossy(1, RECORDS))
        (warning,) = (record.getMessage() for record in caplog.records if "cannot be read again" in record.getMessage())
    assert warning.startswith("source 'numbers' (")
    assert "test_guarantees.py:" in warning
    assert "at most once" in warning
    caplog.clear()
    run(Straight(tmp_path / "out", DeliveryGuarantee.AT_LEAST_ONCE))
    assert not any("cannot be read again" in record.getMessage() for record in caplog.records)
