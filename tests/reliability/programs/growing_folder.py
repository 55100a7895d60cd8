"""Counts, adds up in windows and sets aside what comes in files of a growing folder, under any parallelism.

growing_folder.py FOLDER RUNTIME ROLLING RECORDS PARALLELISM MODE

ROLLING is ``size`` or ``checkpoint``, RECORDS the most that a subtask reads in an epoch; MODE is ``watch``, which never
ends, or ``finish``, which reads what was found.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from headrace.client.running import submission_defaults
from headrace.common import Duration, Row, Time, Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, RollingPolicy
from headrace.datastream.formats.csv import CsvReaderFormat, CsvSchema
from headrace.datastream.formats.json import JsonLinesEncoder
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from tests.reliability.support import canonical
from tests.reliability.support.growing_folder import INPUT, WINDOW
from tests.reliability.support.odd_files import BOUND, MAX_LINE
from tests.reliability.support.reporting import Reporter

SCHEMA = (
    CsvSchema.builder()
    .add_number_column("id")
    .add_string_column("key")
    .add_number_column("time")
    .add_number_column("amount")
    .add_string_column("note")
    .build()
)
NAMES = ["id", "key", "time", "amount", "note"]
RECORD = Types.ROW_NAMED(NAMES, [int, str, int, int, int])
COUNTED = Types.ROW_NAMED([*NAMES, "seen"], [int, str, int, int, int, int])
BAD = OutputTag("bad", Types.ROW_NAMED(["where", "raw", "reason"], [Types.STRING()] * 3))
LATE = OutputTag("late", RECORD)


class Counting(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield Row(**value.as_dict(), seen=seen)


def digest_note(row: Row) -> Row:
    return Row(id=row.id, key=row.key, time=row.time, amount=row.amount, note=zlib.crc32(row.note.encode()))


def source(folder: Path, mode: str) -> FileSource:
    files = FileSource.for_record_stream_format(CsvReaderFormat(SCHEMA, max_line_bytes=MAX_LINE), folder)
    files.set_dead_letter(BAD)
    return (files.monitor_continuously(50) if mode == "watch" else files.process_static_file_set()).build()


def sink(folder: Path, rolling: str) -> FileSink:
    policies = {
        "size": RollingPolicy.default_rolling_policy(part_size=30_000, rollover_interval=5_000),
        "checkpoint": RollingPolicy.on_checkpoint_rolling_policy(),
    }
    return (
        FileSink.for_row_format(folder, JsonLinesEncoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policies[rolling])
        .build()
    )


def main(folder: str, runtime: str, rolling: str, records: str, parallelism: str, mode: str) -> None:
    root = Path(folder)
    settings = canonical.configuration(
        root,
        **{
            "headrace.runtime": runtime,
            "headrace.spark.master": "local[2]",
            "headrace.epoch.max-records": records,
            "headrace.epoch.target-duration": "60s",
            "headrace.source.poll-interval": "20ms",
            "execution.checkpointing.data-inline-threshold": "2kb",
        },
    )
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(int(parallelism))
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND)).with_timestamp_assigner(
        "time"
    )
    rows = env.from_source(source(root / INPUT, mode), event_time, "rows").uid("rows")
    rows.get_side_output(BAD).sink_to(sink(root / "bad", rolling)).uid("bad")
    keyed = rows.map(digest_note, RECORD).uid("digest").key_by("key")
    keyed.process(Counting(), COUNTED).uid("counting").sink_to(sink(root / "records", rolling)).uid("records")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW))).side_output_late_data(LATE)
    totals = windows.aggregate(count(), sum("amount").alias("total")).uid("totals")
    totals.sink_to(sink(root / "windows", rolling)).uid("windows")
    totals.get_side_output(LATE).sink_to(sink(root / "late", rolling)).uid("late")
    with submission_defaults({}, Reporter()):
        env.execute("growing folder")


if __name__ == "__main__":
    main(*sys.argv[1:])
