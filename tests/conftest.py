"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import io
import os
import sys
import zlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import hypothesis
import pytest
from rich.console import Console

from tests.draws import draws
from tests.forks import Forks, launcher_of_forks
from tests.processes import Launcher, launcher

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.broker import KafkaCluster
    from tests.storage.azurite import Azurite
    from tests.storage.hdfs_cluster import HdfsCluster
    from tests.storage.s3_server import S3Server

pytest_plugins = ("tests.workers",)

# A machine may be slow; no test asserts a time.
hypothesis.settings.register_profile(
    "headrace", deadline=None, max_examples=draws(100), suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("headrace")


_GC_THRESHOLDS = (100_000, 20, 20)
"""Python's own are 700, 10 and 10."""

_NAME = "headrace-tests"
"""That of the session that tests share."""

SECRET = " s3cret=\\u0041 "
"""A setting of the session that tests share; Spark must neither change nor show it."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and what they are made of stay to the end: the garbage collector need not look at them.

    Afterwards it looks at new objects less often than Python would: that took a seventh of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with long tests come first."""
    for item in _cases_left_out(items):
        item.add_marker(pytest.mark.slow)
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


def pytest_configure() -> None:
    """Nothing that tests kill takes along what it has written, so that nobody need wait for the disk."""
    os.fsync = os.fstat  # type: ignore[assignment]


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that has started a Spark of its own without a marker: each fork of ``make test`` would have one."""
    pyspark = sys.modules.get("pyspark")
    context = pyspark and pyspark.SparkContext._active_spark_context
    is_marked = any(item.get_closest_marker(name) for name in ("spark", "integration"))
    if context and context.appName != _NAME and not is_marked:
        context.stop()
        pytest.fail("it starts a Spark: mark it so, or set headrace.runtime = local")


def _cases_left_out(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each test that is sampled the cases that `make test` leaves out, by a digest of their names."""
    sampled: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            sampled.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in sampled.values():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        yield from sorted(cases, key=lambda case: zlib.crc32(case.nodeid.encode()))[marker.args[0] :]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two local executors' worth of threads, set up as headrace sets up its own.

    Queries of tests have four tasks where Spark would have two hundred; those of epochs say themselves how many.
    """
    from headrace.runtime.spark.session import acquire_session

    settings = {
        "spark.app.name": _NAME,
        "spark.hadoop.x.password": SECRET,
        "spark.sql.shuffle.partitions": "4",
    }
    handle = acquire_session(settings, master="local[2]")
    yield handle.session
    handle.stop()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Launcher]:
    """Starts programs; ends what is left of them after the test."""
    with launcher(tmp_path) as started:
        yield started


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    """Starts programs whose start is not the point, nor their end; ends what is left of them after the test."""
    with launcher_of_forks(tmp_path) as started:
        yield started


@pytest.fixture
def console() -> Console:
    """A console that is no terminal; what it printed is in its ``file``."""
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Console:
    """A console that takes itself for a terminal, whatever runs the tests."""
    monkeypatch.setenv("TERM", "xterm")
    return Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3; what clients need to know is in its options alone."""
    for library in ("obstore", "moto", "flask"):
        pytest.importorskip(library)
    os.environ["MOTO_CALL_RESET_API"] = "false"
    from tests.storage.s3_server import S3Server

    server = S3Server()
    yield server
    server.end()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """An HDFS; tests that use it are slow."""
    for library in ("hdfs_native", "pyspark"):
        pytest.importorskip(library)
    from tests.storage.hdfs_cluster import HdfsCluster, require_hadoop

    require_hadoop()
    cluster = HdfsCluster(tmp_path_factory.mktemp("hdfs"))
    yield cluster
    cluster.end()


@pytest.fixture(scope="session")
def azure() -> Iterator[Azurite]:
    """An Azure Blob Storage; tests that use it are integration tests."""
    pytest.importorskip("obstore")
    from tests.storage.azurite import Azurite, require_azurite

    require_azurite()
    server = Azurite()
    yield server
    server.end()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A Kafka of one node; tests that use it are integration tests."""
    for library in ("confluent_kafka", "jgo"):
        pytest.importorskip(library)
    from headrace.broker import KafkaCluster

    settings = {"log.cleaner.backoff.ms": "100"}  # compacts what a test has written at once
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings) as cluster:
        yield cluster
