"""A static DataFrame, and a database, joined in workers of Spark."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.common import Configuration, Row
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.lookup import Lookup, LookupCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_dataframe_and_a_database_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    customers = spark.createDataFrame([(1, "ann"), (2, "bob")], "id BIGINT, name STRING")
    with sqlite3.connect(tmp_path / "ages.db") as connection:
        connection.execute("CREATE TABLE ages (name TEXT, age INTEGER)")
        connection.execute("INSERT INTO ages VALUES ('bob', 40)")
    connection.close()
    ages = Lookup.table(partial(sqlite3.connect, tmp_path / "ages.db"), "ages", "name", {"age": int})
    settings = Configuration.from_dict({"headrace.runtime": "spark", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    named = env.from_collection([1, 2, 3]).enrich(Lookup.dataframe(customers, key="id"), lambda number: number)
    found = named.enrich(ages, lambda pair: pair[1] and pair[1].name, cache=LookupCache.partial())
    assert found.execute_and_collect(limit=10) == [
        ((1, Row(id=1, name="ann")), None),
        ((2, Row(id=2, name="bob")), Row(age=40)),
        ((3, None), None),
    ]
