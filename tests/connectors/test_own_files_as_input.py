"""A source of files does not read what the job itself keeps: records would come of checkpoints, and never end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.common import Configuration, WatermarkStrategy
from headrace.common.errors import InvalidProgramError
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat


def lines(path: Path | str, checkpoints: Path) -> list[str]:
    """What a job reads that has its checkpoints somewhere."""
    settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(checkpoints)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    with stream.execute_and_collect() as found:
        return sorted(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("one\ntwo\n")
    return tmp_path / "in"


@pytest.mark.parametrize("path", ["", "*", "**", "**/*.log", "j*/s*", "link"])
def test_a_checkpoint_directory_among_the_files_is_refused(path: str, folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    place = folder.parent / "link" if path == "link" else f"{folder}{os.sep}{path}"
    with pytest.raises(InvalidProgramError, match=r"the job's own files as well.*execution\.checkpointing\.dir"):
        lines(place, folder / "job")


@pytest.mark.parametrize(
    ("path", "job"), [("", ".job"), ("", "_checkpoints/job"), ("a", "job"), ("[a-c]", "job"), ("", "../in-job")]
)
def test_one_where_the_source_does_not_look_is_none_of_its_files(path: str, job: str, folder: Path) -> None:
    assert lines(f"{folder}{os.sep}{path}", folder / job) == ["one", "two"]
