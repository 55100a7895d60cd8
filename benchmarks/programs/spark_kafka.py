"""Payments from one topic of Kafka to another by Spark's own source and sink, which write at least once.

Options: ``kafka`` (bootstrap servers), ``topic``, ``work``, which is ``pass-through`` or ``windows``, and ``store``. A
micro-batch has ``records_per_epoch`` records.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import jgo
from pyspark.sql import functions as sql

from benchmarks.brokers import Broker
from benchmarks.outcome import Assignment, Epoch, Outcome, medians
from benchmarks.payments import FIELDS, output_totals
from benchmarks.programs.spark_stream import STORES, open_session
from benchmarks.truth import WINDOW_MILLIS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The newest that Maven Central has; it runs on the Spark that is installed."""

_JARS = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""What of it Spark does not have."""

_CACHE = Path(__file__).resolve().parent.parent / "work" / "jars"


def run(assignment: Assignment) -> Outcome:
    """Run the query over all that the topic has."""
    options = assignment.options
    broker = Broker.of(options)
    results = broker.new_topic("results")
    session = open_session(assignment.work, STORES[options["store"]] | {"spark.jars": ",".join(connector_jars())})
    payments = _read(session, assignment)
    written = payments if options["work"] == "pass-through" else _windows(payments)
    query = (
        written.select(sql.to_json(sql.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", options["kafka"])
        .option("topic", results)
        .option("checkpointLocation", str(assignment.work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    read = [batch for batch in query.recentProgress if batch["numInputRows"]]
    times = [{name: millis / 1000 for name, millis in batch["durationMs"].items()} for batch in read]
    epochs = (Epoch(batch["numInputRows"], time["triggerExecution"]) for batch, time in zip(read, times, strict=True))
    return Outcome(tuple(epochs), output_totals(broker, results), {"seconds": medians(times[len(times) // 2 :])})


def connector_jars() -> list[str]:
    """The jars of Spark's connector, fetched the first time."""
    found = jgo.build(_CONNECTOR, cache_dir=_CACHE).all_jars
    return [str(jar) for jar in found if Path(jar).name.startswith(_JARS)]


def _read(session: SparkSession, assignment: Assignment) -> DataFrame:
    """The topic as a stream of payments; Spark has nothing for a plain JSON but a function over its column."""
    messages = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", assignment.options["kafka"])
        .option("subscribe", assignment.options["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", assignment.records_per_epoch)
        .load()
    )
    schema = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
    return messages.select(sql.from_json(sql.col("value").cast("string"), schema).alias("it")).select("it.*")


def _windows(payments: DataFrame) -> DataFrame:
    """Count and sum for each card and minute, as headrace's results have them."""
    stamped = payments.withColumn("ts", sql.timestamp_millis("at")).withWatermark("ts", "5 seconds")
    grouped = stamped.groupBy("card", sql.window("ts", f"{WINDOW_MILLIS} milliseconds").alias("window"))
    results = grouped.agg(sql.count("*").alias("c"), sql.sum("amount").alias("s"))
    return results.select("card", sql.unix_millis("window.end").alias("window_end"), "c", "s")
