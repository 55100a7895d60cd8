"""How much sources say that they have not read yet."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.common.time import Duration
from headrace.connectors.ranges import CollectionSource, DataGeneratorSource, NumberSequenceSource, RateLimiterStrategy
from headrace.connectors.source import Pending, ReadBudget, Source
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from tests.connectors.harness import SourceRun


def pending(run: SourceRun) -> Pending:
    (split,) = run.enumerator.discover(run.now)
    position = run.positions.get(split, run.enumerator.initial_position(split))
    return run.enumerator.pending(split, position, run.now)


def itself(index: int) -> int:
    return index


def run_of(source: Source, folder: Path) -> SourceRun:
    return SourceRun(source, folder / "state")


def test_numbers_are_counted(tmp_path: Path) -> None:
    run = run_of(NumberSequenceSource(1, 100), tmp_path)
    assert pending(run) == Pending(100, 800)
    run.epoch(ReadBudget(30, 10**6))
    assert pending(run) == Pending(70, 560)
    run.epoch()
    assert pending(run) == Pending(0, 0)
    assert pending(run_of(CollectionSource(["a", "b"]), tmp_path)).records == 2
    assert pending(run_of(NumberSequenceSource(1, 0), tmp_path)).records == 0


def test_a_generator_knows_what_its_rate_has_made_available(tmp_path: Path) -> None:
    endless = DataGeneratorSource(itself)
    assert pending(run_of(endless, tmp_path)) == Pending()
    run = run_of(DataGeneratorSource(itself, None, RateLimiterStrategy.per_second(10)), tmp_path)
    assert pending(run).records == 0
    run.now += 1_000
    assert pending(run).records == 10
    run.epoch()
    assert pending(run).records == 0
    run.now += 100
    assert pending(run).records == 1


def test_files_are_told_by_their_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def put(name: str, lines: int) -> None:
        (folder / name).write_text("123456789\n" * lines)
        os.utime(folder / name, (1, 1))

    put("a", 10)
    put("b", 20)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    run = run_of(builder.monitor_continuously(Duration.of_seconds(1)).build(), tmp_path)
    assert pending(run) == Pending(bytes=300)
    run.epoch(ReadBudget(10**6, 50))
    assert pending(run) == Pending(bytes=250)
    run.restart()
    assert pending(run) == Pending(bytes=250)
    run.epoch(ReadBudget(10**6, 150))
    assert pending(run) == Pending(bytes=100)
    put("c", 1)
    run.now += 1_000
    assert pending(run) == Pending(bytes=110)
    run.epoch()
    assert pending(run) == Pending(bytes=0)
    run.restart()
    assert pending(run) == Pending(bytes=0)
