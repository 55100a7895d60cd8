"""Flink, where somebody has installed it to compare with: PyFlink in an interpreter of its own."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.data import OUT_OF_ORDER_MILLIS, RandomKeys
from benchmarks.lab import Contestant
from benchmarks.truth import TRIGGER_COUNT, WINDOW_MILLIS
from headrace.common.java import bundled_java_home, find_java

PLACE = Path(__file__).resolve().parent / "work" / "flink"
"""The virtual environment."""

_HOW = "docs/benchmarks.md says how to install it"


class NoFlinkError(Exception):
    """Why Flink cannot take part."""


def window_contestant(data: RandomKeys) -> Contestant:
    """Flink SQL doing the windows.

    Raises:
        NoFlinkError: when the virtual environment is not there, or not whole.
    """
    return Contestant("Flink SQL", "flink_window", _options(data), python=str(_interpreter(PLACE)))


def count_trigger_contestant(data: RandomKeys, files: int) -> Contestant:
    """PyFlink's DataStream API with Python in threads of its Java process, on the first files.

    Raises:
        NoFlinkError: when the virtual environment is not there, or not whole.
    """
    options = _options(data) | {"count": TRIGGER_COUNT, "records": files * data.records_per_file}
    return Contestant("PyFlink", "flink_count_trigger", options, files=files, python=str(_interpreter(PLACE)))


def _options(data: RandomKeys) -> dict[str, Any]:
    """What all of Flink's programs want to know.

    Flink reads the files of the input in no order, so a record may be late by all of their event time.
    """
    return {
        "key_type": "string" if data.strings else "bigint",
        "window_millis": WINDOW_MILLIS,
        "lateness_millis": data.span_millis + OUT_OF_ORDER_MILLIS,
        "java_home": str(find_java(os.environ, bundled_java_home()).home),
        "classpath": os.pathsep.join(map(str, _hadoop_jars())),
    }


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
    """Flink reads Parquet with classes of Hadoop, which PySpark has."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return sorted((Path(spec.origin).parent / "jars").glob("hadoop-client-*.jar"))
