"""Every kind of file sink that is shipped, and how its files are read again."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.common import Encoder
from headrace.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from headrace.datastream.formats.csv import CsvBulkWriters, CsvEncoder, CsvSchema
from headrace.datastream.formats.json import JsonLinesEncoder
from headrace.datastream.formats.parquet import ParquetBulkWriters
from headrace.formats.file_format import BulkWriterFactory
from tests.reliability.support.outputs import parts
from tests.reliability.support.small_jobs import RECORD

ROLLED_BY_SIZE = RollingPolicy.default_rolling_policy(part_size=2_500)
ROLLED_AT_THE_END = RollingPolicy.default_rolling_policy()
A_FILE_AN_EPOCH = OnCheckpointRollingPolicy()

Records = list[tuple[int, int]]


@dataclass(frozen=True)
class Kind:
    """A kind of file sink.

    Attributes:
        name: what it is.
        make: makes one that writes below a folder.
        read: the records of a file.
    """

    name: str
    make: Callable[[Path], FileSink]
    read: Callable[[Path], Iterator[tuple[int, int]]]

    def records(self, folder: Path) -> Records:
        """All visible records, sorted."""
        return sorted(record for part in parts(folder) for record in self.read(part.path))

    def __str__(self) -> str:
        return self.name


def contents(folder: Path) -> dict[str, bytes]:
    """The visible files as they are."""
    return {str(part.path.relative_to(folder)): part.path.read_bytes() for part in parts(folder)}


def _rows(encoder: Encoder, policy: RollingPolicy) -> Callable[[Path], FileSink]:
    return lambda folder: (
        FileSink.for_row_format(folder, encoder)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policy)
        .build()
    )


def _joined(factory: BulkWriterFactory) -> Callable[[Path], FileSink]:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build()
    return lambda folder: (
        FileSink.for_bulk_format(folder, factory)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .enable_compact(strategy, FileCompactor.record_wise_file_compactor())
        .build()
    )


def _bulk(factory: BulkWriterFactory, suffix: str) -> Callable[[Path], FileSink]:
    return lambda folder: (
        FileSink.for_bulk_format(folder, factory)
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy"))
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(suffix).build())
        .build()
    )


def _read_text(path: Path) -> Iterator[tuple[int, int]]:
    for line in path.read_text().splitlines():
        number, seen = line.removeprefix("+I[").removesuffix("]").split(", ")
        yield int(number), int(seen)


def _read_csv(path: Path) -> Iterator[tuple[int, int]]:
    with path.open(newline="") as file:
        for record in csv.DictReader(file, strict=True):
            yield int(record["number"]), int(record["seen"])


def _read_json(path: Path) -> Iterator[tuple[int, int]]:
    for line in path.read_text().splitlines():
        record = json.loads(line)
        yield record["number"], record["seen"]


def _read_parquet(path: Path) -> Iterator[tuple[int, int]]:
    for record in pq.read_table(path).to_pylist():
        yield record["number"], record["seen"]


_HEADED = CsvEncoder(header=True)
_SCHEMA = CsvSchema.builder().add_number_column("number").add_number_column("seen").set_use_header().build()

KINDS = [
    Kind("text-a-file-an-epoch", _rows(Encoder.simple_string_encoder(), A_FILE_AN_EPOCH), _read_text),
    Kind("text-rolled-by-size", _rows(Encoder.simple_string_encoder(), ROLLED_BY_SIZE), _read_text),
    Kind("text-rolled-at-the-end", _rows(Encoder.simple_string_encoder(), ROLLED_AT_THE_END), _read_text),
    Kind("csv-rolled-by-size", _rows(_HEADED, ROLLED_BY_SIZE), _read_csv),
    Kind("json-a-file-an-epoch", _rows(JsonLinesEncoder(), A_FILE_AN_EPOCH), _read_json),
    Kind("csv-bulk", _bulk(CsvBulkWriters.for_schema(_SCHEMA), ".csv"), _read_csv),
    Kind("parquet-bulk", _bulk(ParquetBulkWriters.for_row_type(RECORD), ".parquet"), _read_parquet),
    Kind("parquet-rolled-and-joined", _joined(ParquetBulkWriters.for_row_type(RECORD)), _read_parquet),
]


_LIKE_OTHERS = ("text-rolled-by-size", "json-a-file-an-epoch", "csv-bulk")
KINDS_AND_MARKS = [pytest.param(kind, marks=[pytest.mark.slow] * (kind.name in _LIKE_OTHERS)) for kind in KINDS]
"""Those are slow that differ from another one by the format alone."""


def by_name(name: str) -> Kind:
    """The kind of that name."""
    return next(kind for kind in KINDS if kind.name == name)
