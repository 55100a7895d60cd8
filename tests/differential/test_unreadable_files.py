"""Files that cannot be read, in whole jobs on both runtimes: the same records, losses and errors."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from headrace.common import WatermarkStrategy, options
from headrace.common.configuration import Configuration
from headrace.common.errors import CorruptFileError, HeadraceError, SourceChangedError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.source import EnumeratorContext, SourceReader, SplitEnumerator
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat

LOST = OutputTag("lost", Types.ROW_NAMED(["where", "raw", "reason"], [str, str, str]))
LINES = [f"line {number} {number * 7919 % 10007}" for number in range(20_000)]


class Vanishing(FileSource):
    """A source with files that are deleted when they are listed, and when they are about to be read."""

    listed: Path
    planned: Path

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        made = super().create_enumerator(context)
        self.listed.unlink(missing_ok=True)
        return made

    def create_reader(self) -> SourceReader:
        self.planned.unlink(missing_ok=True)
        return super().create_reader()


def run(source: FileSource, runtime: str) -> tuple[list[str], list[Any], dict[str, int]]:
    settings = Configuration()
    settings.set(options.RUNTIME, runtime)
    settings.set(options.PARALLELISM, 2)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    lines: list[str] = []
    lost: list[Any] = []
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    stream.sink_to(CollectSink(lines.extend))
    stream.get_side_output(LOST).sink_to(CollectSink(lost.extend))
    return lines, lost, env.execute("files").get_all_accumulator_results()


def files(folder: Path) -> None:
    for name in ("a", "b", "d"):
        (folder / name).write_text(f"{name}\n")
    compressed = gzip.compress("".join(f"{line}\n" for line in LINES).encode())
    (folder / "c.gz").write_bytes(compressed[: len(compressed) // 2])


def source_of(folder: Path, *tolerances: str) -> FileSource:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).set_dead_letter(LOST)
    for tolerance in tolerances:
        getattr(builder, tolerance)()
    return builder.build()


RUNTIMES = ["local", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


def test_what_is_lost_is_told(runtime: str, tmp_path: Path) -> None:
    files(tmp_path)
    source = source_of(tmp_path, "ignore_missing_files", "ignore_corrupt_files")
    source.__class__ = Vanishing
    assert isinstance(source, Vanishing)
    source.listed, source.planned = tmp_path / "b", tmp_path / "d"
    lines, lost, counters = run(source, runtime)
    whole = [line for line in lines if line.startswith("line")]
    assert whole == LINES[: len(whole)]
    assert len(whole) > len(LINES) // 4
    assert [line for line in lines if not line.startswith("line")] == ["a"]
    assert sorted((row.where, row.raw) for row in lost) == [(str(tmp_path / name), "") for name in ("b", "c.gz", "d")]
    assert (counters["numFilesMissing"], counters["numFilesCorrupt"]) == (2, 1)
    assert counters["files.numFilesMissing"] == 2


@pytest.mark.parametrize(
    ("name", "error", "option"),
    [("c.gz", CorruptFileError, "ignore_corrupt_files"), ("d", SourceChangedError, "ignore_missing_files")],
)
def test_without_the_option_the_job_fails_once_and_names_it(
    runtime: str, tmp_path: Path, name: str, error: type[HeadraceError], option: str
) -> None:
    files(tmp_path)
    source = source_of(tmp_path, *({"ignore_missing_files", "ignore_corrupt_files"} - {option}))
    source.__class__ = Vanishing
    assert isinstance(source, Vanishing)
    source.listed, source.planned = tmp_path / "b", tmp_path / "d"
    if option == "ignore_missing_files":
        source.listed = tmp_path / "none"
    with pytest.raises(error, match=rf"{name} .*{option}\(\)"):
        run(source, runtime)
