"""A job that tests of savepoints take them of: totals by key, in files, with a timer for the end of event time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Duration, Types, WatermarkStrategy
from headrace.common.serialization import Encoder
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from headrace.datastream.state import ValueStateDescriptor
from tests.waiting import PATIENCE

DEADLINE = PATIENCE


class Totals(KeyedProcessFunction):
    """The total of each key so far; a timer at ten times the key shows it once more."""

    def open(self, context: RuntimeContext) -> None:
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        key, amount = value
        total = (self.total.value() or 0) + amount
        self.total.update(total)
        ctx.timer_service().register_event_time_timer(10_000 + int(key[1:]))
        yield f"{key} {total}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"{ctx.get_current_key()} ends with {self.total.value()} at {timestamp}"


@dataclass
class Place:
    """Where a test has its files.

    Attributes:
        root: the folder of all.
        input: what jobs read.
    """

    root: Path

    @property
    def input(self) -> Path:
        folder = self.root / "in"
        folder.mkdir(exist_ok=True)
        return folder

    def write(self, name: str, amounts: dict[int, int]) -> None:
        """One more file of input."""
        (self.input / name).write_text("".join(f"k{key},{amount}\n" for key, amount in amounts.items()))

    def lines(self, output: str) -> list[str]:
        """What a job has published, in the order of files."""
        found = (path for path in sorted((self.root / output).rglob("part-*")))
        return [line for path in found for line in path.read_text().splitlines()]

    def totals(self, output: str) -> dict[str, int]:
        """The last total of each key."""
        found: dict[str, int] = defaultdict(int)
        for line in self.lines(output):
            if "ends" not in line:
                key, total = line.split()
                found[key] = max(found[key], int(total))
        return dict(found)


def start(
    place: Place,
    name: str,
    parallelism: int,
    *,
    ends: bool = False,
    settings: dict[str, str | None] | None = None,
    uid: str = "totals",
    policy: RollingPolicy | None = None,
    source: str = "lines",
    sink: str = "out",
    also: str = "",
) -> JobClient:
    """Start the job.

    Args:
        place: where its input is.
        name: of its checkpoint directory, and with ``out-`` before of its output.
        parallelism: of all operators.
        ends: whether it ends with the input that is there.
        settings: more of the configuration; None for what is not to be set.
        uid: of the operator with state.
        policy: when files of output are complete; by size and time when left out.
        source: the uid of the source.
        sink: that of the sink.
        also: that of a second source, of the folder with its name; none when empty.
    """
    known = {
        "headrace.runtime": "local",
        "parallelism.default": str(parallelism),
        "execution.checkpointing.dir": str(place.root / name),
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.savepoint-dir": str(place.root / "savepoints"),
    }
    given = {key: value for key, value in (known | (settings or {})).items() if value is not None}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(place.input))
    reading = builder.build() if ends else builder.monitor_continuously(Duration.of_millis(20)).build()
    lines = env.from_source(reading, WatermarkStrategy.no_watermarks(), "lines").uid(source)
    if also:
        more = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(place.root / also)).build()
        lines = lines.union(env.from_source(more, WatermarkStrategy.no_watermarks(), also).uid(also))
    pairs = lines.map(_parsed, Types.TUPLE([Types.STRING(), Types.LONG()]))
    totals = pairs.key_by(lambda pair: pair[0], Types.STRING()).process(Totals(), Types.STRING()).uid(uid)
    files = (
        FileSink.for_row_format(str(place.root / f"out-{name}"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policy or RollingPolicy.default_rolling_policy())
        .build()
    )
    totals.sink_to(files).uid(sink)
    return env.execute_async("totals")


def _parsed(line: str) -> tuple[str, int]:
    key, amount = line.split(",")
    return key, int(amount)


@contextmanager
def fed(place: Place, client: JobClient) -> Iterator[None]:
    """The job gets a small file of input after the other meanwhile, and is given up afterwards."""
    stop = threading.Event()

    def feed() -> None:
        for number in range(10_000):
            if stop.wait(0.005):
                break
            place.write(f"f{number}", dict.fromkeys(range(5), 1))

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        yield
    finally:
        stop.set()
        feeding.join()
        client.cancel().result(DEADLINE)


def wait_for_records(client: JobClient, records: int) -> None:
    """Wait until the job has read so many, since its first start."""
    wait_until(lambda: client.get_accumulators().result().get("numRecordsRead", 0) >= records, client)


def wait_until(condition: Callable[[], bool], client: JobClient) -> None:
    """Wait for something that a job is to do."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert not client.get_job_status().result().is_terminal_state(), client.get_job_execution_result().exception()
        assert time.monotonic() < deadline
        time.sleep(0.01)
