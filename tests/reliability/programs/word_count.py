"""Counts words; every count a word goes through is written once.

word_count.py FOLDER RUNTIME ROWS_AN_EPOCH PARALLELISM [SETTING=VALUE ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.client.running import submission_defaults
from headrace.common import Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from tests.reliability.support import canonical
from tests.reliability.support.reporting import Reporter

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def main(folder: str, runtime: str, rows: str, parallelism: str, *more: str) -> None:
    settings = canonical.configuration(
        Path(folder),
        **{
            "headrace.runtime": runtime,
            "headrace.spark.master": "local[2]",
            "headrace.epoch.max-records": rows,
            "headrace.epoch.min-interval": "100ms",
            **dict(setting.split("=", 1) for setting in more),
        },
    )
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(int(parallelism))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), Path(folder) / "words").build()
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words").uid("words")
    ones = words.map(lambda word: (word, 1), PAIR).uid("ones")
    counts = ones.key_by(0).sum(1).uid("counts")
    counts.sink_to(canonical.row_sink(Path(folder) / "output")).uid("files")
    with submission_defaults({}, Reporter()):
        env.execute("word count")


if __name__ == "__main__":
    main(*sys.argv[1:])
