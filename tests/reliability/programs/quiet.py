"""Copies the lines of a watched folder: quiet.py FOLDER.  Without new files nothing happens."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.common import Configuration, Duration, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat


def main(folder: Path) -> None:
    configuration = Configuration().set_string("execution.checkpointing.dir", str(folder / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder / "input"))
        .monitor_continuously(Duration.of_millis(50))
        .build()
    )
    env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").print()
    env.execute("quiet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
