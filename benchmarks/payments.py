"""Payments: JSON records of 90 bytes in a topic, made of the files of a data set, and what a job has made of them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from benchmarks.brokers import PARTITIONS

if TYPE_CHECKING:
    from benchmarks.brokers import Broker

FIELDS = {"id": "bigint", "card": "string", "at": "bigint", "amount": "double", "country": "string"}
"""The fields of a payment, by Spark's names of their types; ``at`` is in milliseconds."""

_LINGER_MILLIS = 1_000
_MEMBERS = ('{"id":', ',"card":"', '","at":', ',"amount":', ',"country":"lu"}')


def fill(broker: Broker, source: Path) -> str:
    """A topic with the records of a data set, numbered in their order, which they keep in each partition."""
    topic = broker.new_topic("payments")
    broker.send(topic, _payments(source), _LINGER_MILLIS)
    return topic


def _payments(source: Path) -> Iterator[tuple[bytes, int]]:
    number = 0
    for path in sorted(source.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(1 << 16):
            numbers = pa.array(range(number, number + batch.num_rows))
            for value, at in zip(_as_json(batch, numbers).to_pylist(), numbers.to_pylist(), strict=True):
                yield value.encode(), at % PARTITIONS
            number += batch.num_rows


def _as_json(batch: pa.RecordBatch, numbers: pa.Array) -> pa.Array:
    millis = pc.divide(batch.column("ts").cast(pa.int64()), 1000)
    fields = [numbers.cast(pa.string()), batch.column("key"), millis.cast(pa.string())]
    fields.append(batch.column("value").cast(pa.string()))
    texts = [part for pair in zip(_MEMBERS, fields, strict=False) for part in pair]
    return pc.binary_join_element_wise(*texts, _MEMBERS[-1], "")


def output_totals(broker: Broker, topic: str) -> dict[str, float]:
    """Sums over the values of a topic that a job has written: payments, or windows of them."""
    found = pa_json.read_json(io.BytesIO(b"\n".join(broker.values(topic).to_pylist())))
    if "id" in found.column_names:
        ids = found.column("id")
        distinct = pc.count_distinct(ids).as_py()
        return {"rows": found.num_rows, "ids": pc.sum(ids).as_py(), "distinct": distinct} | _sum(found, "amount")
    rows = {"rows": found.num_rows, "last_end": pc.max(found.column("window_end")).as_py()}
    return rows | {"count": pc.sum(found.column("c")).as_py()} | _sum(found, "s")


def _sum(found: pa.Table, column: str) -> dict[str, float]:
    return {"sum": pc.sum(found.column(column)).as_py()}
