"""What a job's progress says is what ``headrace checkpoints`` says of its newest manifest, also while it is idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import manifest_numbers, name_of
from headrace.cli.checkpoints import state_bytes, watermark_of
from headrace.client.displays import ProgressListener
from headrace.client.running import submission_defaults
from headrace.common import Configuration, Duration, Types, WatermarkStrategy
from headrace.common.serialization import Encoder
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.datastream.window import Time, TumblingEventTimeWindows
from headrace.storage.folder import posix_folder
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

Said = tuple[int, int, int, int, int]


def newest(checkpoints: Path) -> Manifest:
    folder = posix_folder(checkpoints).folder("manifests")
    name = name_of(manifest_numbers(folder)[-1])
    return Manifest.from_bytes(folder.read(name), name)


def said_by_the_directory(checkpoints: Path) -> Said:
    found = newest(checkpoints)
    size = state_bytes(found, posix_folder(checkpoints))
    return found.epoch, len(found.pending), watermark_of(found), size, found.counters["numRecordsRead"]


def said_by_the_job(listener: ProgressListener) -> Said:
    (job,) = listener.jobs()
    latest = job.latest
    assert latest is not None
    return latest.epoch, latest.pending_commits, latest.watermark, latest.state_bytes, job.records


@pytest.mark.parametrize("inline", ["20 kb", "0 b"])
def test_an_idle_job(tmp_path: Path, console: Console, inline: str) -> None:
    folder, checkpoints = tmp_path / "in", tmp_path / "checkpoints"
    folder.mkdir()
    settings = {
        "headrace.runtime": "local",
        "parallelism.default": "2",
        "execution.checkpointing.dir": str(checkpoints),
        "execution.checkpointing.data-inline-threshold": inline,
        "headrace.source.poll-interval": "10 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    reads = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    reads.monitor_continuously(Duration.of_millis(20))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda line, _: int(line))
    lines = env.from_source(reads.build(), strategy, "numbers").uid("numbers")
    totals = lines.key_by(lambda line: int(line) % 3, Types.LONG()).window(TumblingEventTimeWindows.of(Time.seconds(9)))
    written = totals.aggregate(count()).uid("totals").map(str, Types.STRING()).uid("text")
    written.sink_to(FileSink.for_row_format(tmp_path / "out", Encoder.simple_string_encoder()).build()).uid("out")
    listener = ProgressListener(console)
    with submission_defaults({}, listener):
        client = env.execute_async("totals")
    try:
        for number in range(2):
            (folder / f"{number}.txt").write_text("".join(f"{10_000 * number + 100 * n}\n" for n in range(50)))
            wait_for(lambda: listener.jobs() and listener.jobs()[0].records == 50 * (number + 1))  # noqa: B023
            # Idle: what the sink has published is acknowledged by a manifest of its own
            wait_for(lambda: newest(checkpoints).pending == () and said_by_the_job(listener)[1] == 0)
            assert said_by_the_job(listener) == said_by_the_directory(checkpoints)
    finally:
        client.stop().result()
    assert newest(checkpoints).counters["numRecordsRead"] == 100
    assert "job 'totals' stopped at epoch" in console.file.getvalue()  # type: ignore[attr-defined]
