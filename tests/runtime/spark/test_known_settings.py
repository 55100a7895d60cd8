"""Misspelled settings of Spark are told, with what was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.runtime.spark.settings import nearest, warn_of_misspelled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KNOWN = {"spark.executor.memory", "spark.executor.cores", "spark.sql.shuffle.partitions", "spark.eventLog.enabled"}


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("spark.executor.memroy", "spark.executor.memory"),
        ("spark.executor.core", "spark.executor.cores"),
        ("spark.sql.shuffle.partition", "spark.sql.shuffle.partitions"),
        ("spark.eventlog.enabled", "spark.eventLog.enabled"),
        ("spark.executor.failures", None),
        ("spark.lineage.enabled", None),
        ("spark.app.owner", None),
    ],
)
def test_what_is_near(key: str, meant: str | None) -> None:
    assert nearest(key, KNOWN) == meant


@pytest.mark.spark
def test_spark_says_what_it_knows(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    right = ["spark.executor.memory", "spark.sql.shuffle.partitions", "spark.app.name", "spark.local.dir"]
    others = ["spark.hadoop.fs.s3a.acces.key", "spark.lineage.enabled", "spark.python.worker.memory"]
    warn_of_misspelled(spark.sparkContext, [*right, *others])
    assert caplog.messages == []
    wrong = ["spark.executor.memroy", "spark.sql.shufle.partitions"]
    warn_of_misspelled(spark.sparkContext, [*right, *wrong])
    assert [message.split()[0] for message in caplog.messages] == [
        "spark.executor.memroy",
        "spark.sql.shufle.partitions",
    ]
    assert caplog.messages[0].endswith("did you mean spark.executor.memory?")
    assert caplog.messages[1].endswith("did you mean spark.sql.shuffle.partitions?")
