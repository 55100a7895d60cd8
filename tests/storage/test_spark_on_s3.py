"""Jobs on Spark whose checkpoint directory is on S3: tasks reach it as the driver does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common.errors import UnsupportedOperationError
from headrace.connectors.source import EnumeratorContext
from headrace.runtime.spark import runtime
from headrace.runtime.spark.dataframe import DataFrameSource
from headrace.storage.folder import Folder
from tests.storage.s3_server import SECRET, S3Server
from tests.storage.test_jobs_on_s3 import JobOnS3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def made(spark: SparkSession, s3: S3Server, tmp_path: Path) -> JobOnS3:
    found = JobOnS3(s3, tmp_path)
    found.settings["headrace.runtime"] = "spark"
    return found


def test_what_is_too_large_for_spark_is_fetched_from_the_store(made: JobOnS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "SENT_WITH_TASKS_BYTES", 0)
    monkeypatch.setattr(runtime, "INLINE_JOB_BYTES", 0)
    original, contents = Folder.write, []

    def write(self: Folder, name: str, chunks: Iterable[Any], **more: bool) -> None:
        content = b"".join(chunks)
        contents.append(content)
        original(self, name, [content], **more)

    monkeypatch.setattr(Folder, "write", write)
    made.job().run()
    made.check()
    assert not any(SECRET.encode() in content for content in contents)
    shipped = [path for method, path in made.server.requests if method == "GET" and "/shipped/" in path]
    assert {path.rpartition("/")[2].partition("-")[0] for path in shipped} == {"job", "parts"}
    assert made.directory.folder("shipped").names() == []


@pytest.mark.slow
def test_a_dataframe_is_kept_on_posix_paths_only(made: JobOnS3, spark: SparkSession) -> None:
    context = EnumeratorContext(2, made.directory.folder("sources"))
    with pytest.raises(UnsupportedOperationError, match=r"from_dataframe\(\) keeps the rows .* in s3://"):
        DataFrameSource(spark.range(3)).create_enumerator(context)


@pytest.mark.slow
def test_a_server_that_is_gone_while_tasks_run(made: JobOnS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark tries their tasks again, and then the job begins again."""
    original, written = Folder.write, []

    def write(self: Folder, name: str, *arguments: object, **more: object) -> None:
        written.append(name)
        original(self, name, *arguments, **more)  # type: ignore[arg-type]
        if written.count("newest") == 3:
            written.append("newest")
            made.server.end_for(3)

    monkeypatch.setattr(Folder, "write", write)
    made.job().run()
    monkeypatch.undo()
    assert written.count("newest") > 4
    made.check()
