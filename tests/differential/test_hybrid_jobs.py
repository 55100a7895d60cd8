"""Jobs that read a hybrid source: each number once, though the job fails on both sides of the switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common import Configuration, Encoder, Types, WatermarkStrategy
from headrace.connectors.hybrid import HybridSource, SourceSwitchContext
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.source import Boundedness, Source
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.functions import MapFunction

FAILING = (40, 41)
"""The numbers at which the job fails once: the end of the first source and the beginning of the second."""


class Failing(MapFunction):
    """Fails once at each of some numbers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def map(self, value: int) -> int:
        marker = self.folder / str(value)
        if value in FAILING and not marker.exists():
            marker.touch()
            raise OSError(f"the first attempt at {value}")
        return value


def rest(context: SourceSwitchContext) -> Source:
    return NumberSequenceSource(context.positions["sequence"] + 1, 100)


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_nothing_is_lost_or_read_twice_at_the_switch(runtime: str, tmp_path: Path) -> None:
    settings = {
        "headrace.runtime": runtime,
        "parallelism.default": "2",
        "headrace.epoch.first-records": "16",
        "headrace.epoch.max-records": "8",
        "headrace.epoch.target-duration": "60s",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "restart-strategy.fixed-delay.attempts": "20",
    }
    (tmp_path / "failed").mkdir()
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = HybridSource.builder(NumberSequenceSource(1, 40)).add_source(rest, Boundedness.BOUNDED).build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    files = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    numbers.map(Failing(tmp_path / "failed"), Types.LONG()).sink_to(files).uid("out")
    counters = env.execute().get_all_accumulator_results()
    assert counters["numRecordsRead"] == 100
    assert counters["numEpochs"] >= 7
    assert {int(path.name) for path in (tmp_path / "failed").iterdir()} == set(FAILING)
    found = [int(line) for path in (tmp_path / "out").glob("*/*") for line in path.read_text().splitlines()]
    assert sorted(found) == list(range(1, 101))
