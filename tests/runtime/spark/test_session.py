"""Sessions of headrace's own and of others, with a real Spark."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyspark
import pytest
from pyspark.sql import functions as sql

from headrace.common.configuration import Configuration
from headrace.common.java import bundled_java_home, find_java
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.spark.epoch_sessions import (
    CONTEXT_KEY,
    EPOCH_SESSIONS,
    JOB_KEY,
    EpochSession,
    EpochSessions,
)
from headrace.runtime.spark.session import (
    _uninterrupted,
    acquire_session,
    mismatches,
    running_session,
    session_of_epochs,
)
from headrace.runtime.spark.settings import (
    DEFAULT_JAVA_OPTIONS,
    EPOCH_QUERY_SETTINGS,
    FRUGAL_JAVA,
    checked_settings,
    settings_of_own_session,
)
from tests.conftest import SECRET
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer_of(folder: Path, source: str, *launcher: str) -> dict[str, Any]:
    """The JSON that a program prints last, in a process of its own, with a Spark of its own."""
    environment = os.environ | {
        "JAVA_HOME": str(find_java(os.environ, bundled_java_home()).home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": FRUGAL_JAVA,
        # PySpark sets these itself
        "SPARK_AUTH_SOCKET_TIMEOUT": "15",
        "SPARK_BUFFER_SIZE": "65536",
    }
    script = folder / "script.py"
    script.write_text(textwrap.dedent(source))
    command = [*(launcher or [sys.executable]), str(script)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.spark
def test_spark_accepts_all_settings(spark: SparkSession) -> None:
    own = {"spark.app.name": "headrace-tests", "spark.master": "local[2]"}
    wanted = settings_of_own_session({}, None, {}) | own | {"spark.hadoop.x.password": SECRET}

    found = {key: spark.conf.get(key, "") or "" for key in wanted}
    options = wanted.pop(DEFAULT_JAVA_OPTIONS)
    assert found.pop(DEFAULT_JAVA_OPTIONS).startswith(options), "where there is a class archive, it stands behind them"
    assert found == wanted
    assert mismatches(spark, own) == ()


@pytest.mark.spark
def test_spark_knows_the_checked_settings(spark: SparkSession) -> None:
    assert spark._jvm is not None
    registry = spark._jvm.org.apache.spark.internal.config.ConfigEntry

    checked = checked_settings("yarn")
    entries = {setting.key: registry.findEntry(setting.key) for setting in checked}

    assert [key for key, entry in entries.items() if entry is None] == []
    for setting in checked:
        if setting.spark_default:
            assert entries[setting.key].defaultValueString() == setting.spark_default


@pytest.mark.spark
def test_running_session_is_used_and_never_stopped(spark: SparkSession) -> None:
    handle = acquire_session({}, master=None)

    assert handle.session is spark
    assert not handle.owned
    assert handle.warnings == ()
    handle.stop()
    assert running_session() is spark
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_running_session_that_differs_gives_warnings(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.adaptive.enabled", "true")

    found = mismatches(other, {"spark.sql.session.timeZone": "CET", "spark.app.name": "headrace-tests"})

    assert [(mismatch.key, mismatch.found, mismatch.wanted) for mismatch in found] == [
        ("spark.sql.adaptive.enabled", "true", "false"),
        ("spark.sql.session.timeZone", "UTC", "CET"),
    ]
    assert str(found[0]).startswith("spark.sql.adaptive.enabled is true, should be false: ")


@pytest.mark.spark
def test_a_session_is_warned_of_once(spark: SparkSession) -> None:
    # No other test asks for these zones: what was told of the shared session stays told.
    asked = {"spark.sql.session.timeZone": "Pacific/Chatham"}

    first, second = acquire_session(asked), acquire_session(asked)
    another = acquire_session({"spark.sql.session.timeZone": "Asia/Kathmandu"})

    assert [mismatch.wanted for mismatch in first.warnings] == ["Pacific/Chatham"]
    assert second.warnings == ()
    assert [mismatch.wanted for mismatch in another.warnings] == ["Asia/Kathmandu"]


@pytest.mark.spark
def test_epochs_have_settings_of_their_own_beside_those_of_the_session(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "CET")
    before = dict(theirs.conf.getAll)

    own = session_of_epochs(theirs)

    assert own.conf.get("spark.sql.session.timeZone") == "CET"
    assert {key: own.conf.get(key) for key in EPOCH_QUERY_SETTINGS} == EPOCH_QUERY_SETTINGS
    assert theirs.conf.getAll == before
    assert own.sparkContext is spark.sparkContext


@pytest.mark.spark
def test_jobs_that_follow_each_other_have_the_same_session(spark: SparkSession) -> None:
    theirs, sessions = spark.newSession(), EpochSessions()

    first, beside = sessions.take(theirs), sessions.take(theirs)
    assert first.session is not beside.session
    sessions.give_back(theirs, first)
    assert sessions.take(theirs) is first

    sessions.give_back(theirs, first)
    theirs.conf.set("spark.sql.session.timeZone", "CET")
    changed = sessions.take(theirs)
    assert changed is not first
    assert changed.session.conf.get("spark.sql.session.timeZone") == "CET"
    sessions.give_back(theirs, changed)
    assert sessions.take(spark.newSession()) is not changed


def decoded(word: str) -> bytes:
    """What a word is in base64; nothing where it is not."""
    try:
        return base64.b64decode(word, validate=True)
    except ValueError:
        return b""


@pytest.mark.spark
def test_what_a_job_is_made_of_is_not_in_the_event_log(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    java, running = context._jvm, context._jsc.sc()
    plain = running.conf().clone()
    plain.set("spark.eventLog.compress", "false").set("spark.eventLog.rolling.enabled", "false")
    folder, no_attempt = java.java.net.URI(tmp_path.as_uri()), java.scala.Option.empty()
    log = java.org.apache.spark.scheduler.EventLoggingListener(
        "secrets", no_attempt, folder, plain, running.hadoopConfiguration()
    )
    log.start()
    running.addSparkListener(log)
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "spark"})
    )
    password = "hunter" + "2"
    with environment.from_collection([1]).map(lambda n: f"{n} {password}").execute_and_collect() as records:
        assert list(records) == ["1 hunter2"]
    running.listenerBus().waitUntilEmpty(120_000)
    running.removeSparkListener(log)
    log.stop()

    lines = [line for file in tmp_path.rglob("secrets*") if file.is_file() for line in file.read_bytes().splitlines()]
    properties = [json.loads(line).get("Properties", {}) for line in lines]
    words = [word for told in properties if JOB_KEY in told for value in told.values() for word in value.split()]
    assert words
    assert not [word for word in words if b"hunter2" in word.encode() + decoded(word)]


@pytest.mark.spark
def test_jobs_that_follow_each_other_have_the_same_query_unless_it_would_tell_secrets(spark: SparkSession) -> None:
    def session_of(parallelism: int, **options: str) -> EpochSession:
        """The session of a job that has ended."""
        settings = {"headrace.runtime": "spark", "parallelism.default": str(parallelism), **options}
        environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        doubled = environment.from_collection([1, 2, 3]).map(lambda n: n * 2)
        with doubled.rebalance().execute_and_collect() as records:
            assert sorted(records) == [2, 4, 6]
        taken = EPOCH_SESSIONS.take(spark)
        EPOCH_SESSIONS.give_back(spark, taken)
        assert {taken.session.conf.get(key, "nothing") for key in (JOB_KEY, CONTEXT_KEY)} == {"nothing"}
        return taken

    session = session_of(2)
    before = dict(session.shared)
    assert before
    assert session_of(2) is session
    assert session.shared == before
    assert session_of(3) is session
    assert session.shared.keys() > before.keys()
    before = dict(session.shared)
    assert session_of(4, **{"s3.access-key": "somebody", "s3.secret-key": SECRET}) is session
    assert session.shared == before


@pytest.mark.spark
@pytest.mark.parametrize("is_epoch", [True, False])
def test_no_code_is_generated_for_the_queries_of_epochs(spark: SparkSession, is_epoch: bool) -> None:
    session = session_of_epochs(spark) if is_epoch else spark
    assert spark._jvm is not None
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = compiled.getCount()

    # An expression that no other query has, so that it is not found compiled
    numbers = session.range(4).selectExpr(f"id * {time.time_ns()} as x", "cast(id % 3 as int) as partition")
    rows = numbers.repartitionById(3, sql.col("partition")).sortWithinPartitions("x").collect()

    assert sorted(row.partition for row in rows) == [0, 0, 1, 2]
    assert (compiled.getCount() == before) == is_epoch


def test_a_start_that_is_interrupted_goes_on_and_what_it_started_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted, stopped = threading.Event(), threading.Event()

    class Started:
        def stop(self) -> None:
            stopped.set()

    def start() -> Any:
        assert interrupted.wait(PATIENCE)
        return Started()

    def wait(_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.runtime.spark.session.wait", wait)
    with pytest.raises(KeyboardInterrupt):
        _uninterrupted(start)
    assert stopped.is_set()


@pytest.mark.spark
def test_secrets_are_known_to_spark_and_in_nobody_s_command_line(spark: SparkSession) -> None:
    """Everybody on the machine can read those; Java is told by a file."""
    assert spark.sparkContext.getConf().get("spark.hadoop.x.password") == SECRET
    assert spark.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10, "there are workers"
    lines = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # one that has ended
            lines.append(" ".join(process.cmdline()))
    assert any("pyspark-shell" in line for line in lines)
    assert not [line for line in lines if SECRET.strip() in line]


@pytest.fixture(scope="module")
def under_spark_submit(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A session of headrace's own in a program of spark-submit's; then a context that somebody else makes."""
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return answer_of(
        tmp_path_factory.mktemp("submitted"),
        """
        import json, threading
        from pyspark import SparkConf, SparkContext
        from headrace.runtime.spark.session import acquire_session, running_session

        own = acquire_session({}, master=None)
        keys = ["spark.master", "spark.scheduler.mode", "spark.sql.adaptive.enabled"]
        told = {key: own.session.conf.get(key) for key in keys} | {"owned": own.owned}
        own.stop()
        own.stop()
        told["stopped"] = running_session() is None

        context = SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false"))
        handles = []
        thread = threading.Thread(target=lambda: handles.append(acquire_session({}, master="local[7]")))
        thread.start()
        thread.join()
        handles[0].stop()
        theirs = {
            "owned": handles[0].owned,
            "warned": [warning.key for warning in handles[0].warnings],
            "alive": handles[0].session.range(3).count(),
        }
        print(json.dumps({"own": told, "theirs": theirs}))
        """,
        *(str(submit), "--master", "local[1]", "--conf", "spark.scheduler.mode=FIFO"),
    )


@pytest.mark.integration
@pytest.mark.slow
def test_what_spark_submit_was_told_wins_over_headrace_s_wishes(under_spark_submit: dict[str, Any]) -> None:
    assert under_spark_submit["own"] == {
        "spark.master": "local[1]",
        "spark.scheduler.mode": "FIFO",
        "spark.sql.adaptive.enabled": "false",
        "owned": True,
        "stopped": True,
    }


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.apart
def test_session_made_without_headrace(under_spark_submit: dict[str, Any]) -> None:
    theirs = under_spark_submit["theirs"]
    assert theirs["owned"] is False
    assert theirs["alive"] == 3
    assert {"spark.master", "spark.ui.retainedJobs", "spark.sql.adaptive.enabled"} <= set(theirs["warned"])


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,1024]"])
def test_life_of_an_own_session(tmp_path: Path, master: str) -> None:
    """Java is told its settings by a file, which does not stay; those of Spark's own files are heeded."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.of.defaults  from defaults\nspark.of.both  from defaults\nspark.driver.memory  777m\n"
    )
    (tmp_path / "temporary").mkdir()
    python = tmp_path / "other-python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    answer = answer_of(
        tmp_path,
        f"""
        import json, os, psutil, tempfile
        os.environ["SPARK_CONF_DIR"] = {str(tmp_path / "conf")!r}
        tempfile.tempdir = {str(tmp_path / "temporary")!r}
        from headrace.runtime.spark.session import acquire_session

        secret = " s3cret=\\\\u0041 "
        os.environ["PYSPARK_PYTHON"] = "/a/left-over"
        before = dict(os.environ)
        settings = {{"spark.hadoop.x.password": secret, "spark.of.both": "mine"}}
        own = acquire_session(settings, {master!r}, {str(python)!r})
        count = own.session.range(10).mapInArrow(lambda batches: batches, "id long").count()
        living = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
        lines = [" ".join(process.cmdline()) for process in living]
        found = {{key: own.session.conf.get(key) for key in ("spark.of.defaults", "spark.of.both")}}
        print(json.dumps({{
            "password": own.session.sparkContext.getConf().get("spark.hadoop.x.password") == secret,
            "count": count,
            "python": own.session.sparkContext.pythonExec,
            "same_environment": dict(os.environ) == before,
            "processes": len(lines),
            "telling": [line for line in lines if "s3cret" in line or "mine" in line],
            "memory": [word for line in lines for word in line.split() if word == "-Xmx777m"],
            "left": os.listdir(tempfile.tempdir),
        }} | found))
        own.stop()
        """,
    )
    assert answer.pop("processes") >= (2 if master == "local[1]" else 3)
    assert answer == {
        "password": True,
        "count": 10,
        "python": str(python),
        "same_environment": True,
        "telling": [],
        "memory": ["-Xmx777m"],
        "left": [],
        "spark.of.defaults": "from defaults",
        "spark.of.both": "mine",
    }
