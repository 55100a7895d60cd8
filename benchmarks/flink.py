"""Flink, to compare with: its SQL and its CEP in a Java process, and PyFlink where somebody has installed it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.data import OUT_OF_ORDER_MILLIS, RandomKeys
from benchmarks.lab import Contestant
from benchmarks.nexmark import Nexmark
from benchmarks.sql import SqlWork
from benchmarks.truth import TRIGGER_COUNT, WINDOW_MILLIS
from headrace.broker import maven_jars
from headrace.common.errors import HeadraceError
from headrace.common.java import bundled_java_home, cache_directory, find_java

PLACE = Path(__file__).resolve().parent / "work" / "flink"
"""The virtual environment."""

VERSION = "2.3.0"
SQL = "Flink SQL"
SQL_ROCKSDB = "Flink SQL, RocksDB"
CEP = "Flink CEP"

_OPENED = (
    *("lang", "lang.invoke", "lang.reflect", "math", "net", "io", "nio", "text", "time"),
    *("util", "util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
)
JAVA_OPTIONS = (
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    *("-Xmx6g", "-Duser.timezone=UTC"),
)
"""How Java is started that runs Flink."""

_JARS = (
    *("flink-clients", "flink-table-api-java-bridge", "flink-table-runtime", "flink-table-planner-loader"),
    *("flink-connector-files", "flink-csv", "flink-sql-parquet"),
)

_HOW = "docs/benchmarks.md says how to install it"


class NoFlinkError(Exception):
    """Why Flink cannot take part."""


def sql_contestant(data: RandomKeys | Nexmark, work: SqlWork, **options: Any) -> Contestant:
    """The contestant that runs a query on Flink SQL.

    Raises:
        NoFlinkError: when its jars are not there and cannot be fetched, or there is no Java.
    """
    told = {"lateness_millis": _lateness_millis(data), "records": data.records}
    return Contestant(SQL, "flink_sql", work.to_options() | _java_and_jars() | told | options)


def rocksdb_contestant(data: RandomKeys | Nexmark, work: SqlWork, **options: Any) -> Contestant:
    """The contestant that runs a query on Flink SQL, whose state is in RocksDB.

    Raises:
        NoFlinkError: when its jars are not there and cannot be fetched, or there is no Java.
    """
    made = sql_contestant(data, work, **options)
    jars = [*made.options["jars"], *map(str, _fetched(f"Flink RocksDB {VERSION}", "flink-statebackend-rocksdb"))]
    return replace(made, name=SQL_ROCKSDB, options={**made.options, "jars": jars, "state_backend": "rocksdb"})


def connector_contestant(data: RandomKeys | Nexmark, work: SqlWork, connector: str) -> Contestant:
    """The contestant that runs a query on Flink SQL with a connector in Java, which is compiled first.

    Raises:
        NoFlinkError: when its jars are not there and cannot be fetched, or there is no Java with a compiler.
    """
    made = sql_contestant(data, work, connector=connector)
    _check_compiler(made.options["java_home"])
    return made


def pattern_contestant(pattern: str) -> Contestant:
    """The contestant that looks for a pattern with Flink CEP.

    Raises:
        NoFlinkError: when its jars are not there and cannot be fetched, or there is no Java with a compiler.
    """
    found = _java_and_jars()
    _check_compiler(found["java_home"])
    return Contestant(CEP, "flink_patterns", found | {"pattern": pattern})


def compile_java(source: Path, classes: Path, options: Mapping[str, Any]) -> None:
    """Compile a Java program against Flink's jars."""
    java, path = f"{options['java_home']}/bin/java", os.pathsep.join([str(classes), *options["jars"]])
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", path, "-d", str(classes), str(source)]
    subprocess.run(compiler, check=True)


def _check_compiler(java_home: str) -> None:
    java = Path(java_home) / "bin" / "java"
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler@" not in modules:
        raise NoFlinkError(f"{java} has no compiler; set JAVA_HOME to a JDK")


def _java_and_jars() -> dict[str, Any]:
    """Options with the home of a Java and with Flink's jars."""
    try:
        java = find_java(os.environ, bundled_java_home())
    except HeadraceError as error:
        raise NoFlinkError(str(error)) from error
    jars = [*_fetched(f"Flink {VERSION}", *_JARS), *_hadoop_jars()]
    return {"java_home": str(java.home), "jars": list(map(str, jars))}


def _fetched(product: str, *artifacts: str) -> list[Path]:
    """The jars of some of Flink's artifacts, and of all that they depend on."""
    try:
        endpoint = "+".join(f"org.apache.flink:{each}:{VERSION}" for each in artifacts)
        return maven_jars(cache_directory(os.environ) / "flink", product, endpoint)
    except (HeadraceError, OSError) as error:
        raise NoFlinkError(str(error)) from error


def count_trigger_contestant(data: RandomKeys, files: int) -> Contestant:
    """PyFlink's DataStream API with Python in threads of its Java process, on the first files.

    Raises:
        NoFlinkError: when the virtual environment is not there, or not whole.
    """
    options = _options(data) | {"count": TRIGGER_COUNT, "records": files * data.records_per_file}
    return Contestant("PyFlink", "flink_count_trigger", options, files=files, python=str(_interpreter(PLACE)))


def _options(data: RandomKeys) -> dict[str, Any]:
    """The options of the PyFlink programs."""
    return {
        "key_type": "string" if data.strings else "bigint",
        "window_millis": WINDOW_MILLIS,
        "lateness_millis": _lateness_millis(data),
        "java_home": str(find_java(os.environ, bundled_java_home()).home),
        "classpath": os.pathsep.join(map(str, _hadoop_jars())),
    }


def _lateness_millis(data: RandomKeys | Nexmark) -> int:
    """The bound on out-of-orderness: Flink reads the input's files in any order, so it is their span of event time."""
    return data.span_millis + OUT_OF_ORDER_MILLIS


def _interpreter(place: Path) -> Path:
    python = place / "bin" / "python"
    if not python.exists():
        raise NoFlinkError(f"there is no {python}; {_HOW}")
    jars = list(place.glob("lib/python3*/site-packages/pyflink/lib/*.jar"))
    if not jars:
        raise NoFlinkError(f"{python} has no PyFlink; {_HOW}")
    if not any(jar.name.startswith("flink-sql-parquet-") for jar in jars):
        raise NoFlinkError(f"{jars[0].parent} has no flink-sql-parquet-*.jar; {_HOW}")
    return python


def _hadoop_jars() -> list[Path]:
    """The Hadoop jars bundled with PySpark, with which Flink reads Parquet."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return sorted((Path(spec.origin).parent / "jars").glob("hadoop-client-*.jar"))
