"""The distribution that docs/plugins.md shows: built, installed, found by name, and used on both runtimes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tomllib
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from headrace.common import Types, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors import create_sink, create_source
from headrace.runtime.task.dependencies import put_on_path
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.logical.errors import PlanningError
from tests.docs.documents import DOCS, example

PAGE = DOCS / "plugins.md"
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution as it would be published."""
    project = tomllib.loads(example(PAGE, "pyproject", "toml"))["project"]
    about = f"headrace_acme-{project['version']}.dist-info"
    groups = project["entry-points"].items()
    lines = [line for group, found in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in found.items()))]
    path = tmp_path_factory.mktemp("dist") / f"headrace_acme-{project['version']}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("headrace_acme/__init__.py", "")
        file.writestr("headrace_acme/plugins.py", example(PAGE, "plugins"))
        file.writestr("headrace_acme/tables.py", example(PAGE, "tables"))
        file.writestr("headrace_acme/sqlite.py", example(DOCS / "connectors.md", "sink"))
        file.writestr(f"{about}/METADATA", METADATA.format(**project))
        file.writestr(f"{about}/WHEEL", WHEEL)
        file.writestr(f"{about}/entry_points.txt", "\n".join(lines))
        file.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel, which is also installed where this process imports from; Spark's workers know nothing of that."""
    target = tmp_path / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True)
    monkeypatch.syspath_prepend(str(target))
    return wheel


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job_from_its_format_to_its_connector(
    runtime: str, installed: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    (tmp_path / "app.log").write_text("level:info took:12\nlevel:warn took:700\nlevel:info took:30\n")
    database = tmp_path / "results.db"
    settings = {"headrace.runtime": runtime, "parallelism.default": "2"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.add_python_file(str(installed))
    options = {"path": tmp_path / "app.log", "format": "logfmt", "logfmt.separator": ":"}
    source = create_source("filesystem", {key: str(value) for key, value in options.items()})
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    pairs = lines.map(lambda line: (line["level"], int(line["took"])), Types.TUPLE([Types.STRING(), Types.INT()]))
    pairs.sink_to(create_sink("sqlite", {"database": str(database)}))
    try:
        env.execute()
    finally:
        put_on_path([])
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("select * from results").fetchall()
    assert sorted(rows) == [("info", 12), ("info", 30), ("warn", 700)]


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_statement_into_a_table_of_its_connector(
    runtime: str, installed: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    database = tmp_path / "results.db"
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {"headrace.runtime": runtime, "parallelism.default": "2", "python.files": str(installed)}.items():
        tables.get_config().set(key, value)
    options = f"'connector' = 'sqlite', 'database' = '{database}'"
    tables.execute_sql(f"CREATE TABLE results (k STRING, v BIGINT) WITH ({options})")
    tables.execute_sql("CREATE TABLE wrong (k STRING) WITH ('connector' = 'sqlite', 'databse' = 'x')")
    try:
        tables.execute_sql("INSERT INTO results VALUES ('info', 12), ('warn', 700)").wait()
    finally:
        put_on_path([])
    with closing(sqlite3.connect(database)) as connection:
        assert sorted(connection.execute("select * from results").fetchall()) == [("info", 12), ("warn", 700)]
    with pytest.raises(PlanningError, match=r"results' doesn't support consuming update changes"):
        tables.execute_sql("INSERT INTO results SELECT k, COUNT(*) FROM (VALUES ('a')) AS t (k) GROUP BY k")
    with pytest.raises(ConfigurationError, match="has no option 'databse': did you mean 'database'"):
        tables.execute_sql("INSERT INTO wrong VALUES ('a')")
