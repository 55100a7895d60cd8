"""What a job leaves of a stream for later jobs of the same program: a sink that fills a cache, a source that reads it.

It lies in the memory of the driver, encoded, and travels with the jobs that read it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import CommitRefusedError
from headrace.connectors.ranges import RangeEnumerator, runs
from headrace.connectors.sink import Committer, Sink, SinkWriter
from headrace.connectors.source import Boundedness, Source, SourceReader, SourceRecords

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import CommitterContext, Json, WriterContext
    from headrace.connectors.source import EnumeratorContext, SplitEnumerator


@dataclass(frozen=True, slots=True)
class CachedBatch:
    """Some records.

    Attributes:
        columns: they, as an Arrow message.
        timestamps: their event times, as bytes of 64-bit integers.
        kinds: their kinds, where some are no insertions and the columns do not say it; else empty.
        count: how many there are.
    """

    columns: bytes
    timestamps: bytes
    kinds: bytes
    count: int

    @classmethod
    def of(cls, batch: Batch) -> CachedBatch:
        """The records of a batch."""
        if batch.is_columnar:
            columns, kinds = batch.columns, batch.kinds_beside_columns
        else:
            columns, kinds = layout_of(batch.type).rows_to_columns_and_kinds(batch.rows)
        times = np.ascontiguousarray(batch.timestamps).tobytes()
        return cls(columns.serialize().to_pybytes(), times, b"" if kinds is None else kinds.tobytes(), len(batch))

    def records(self, type_: TypeInformation) -> SourceRecords:
        """The same for those that read a source."""
        layout, timestamps = layout_of(type_), np.frombuffer(self.timestamps, np.int64)
        columns = pa.ipc.read_record_batch(pa.py_buffer(self.columns), layout.schema)
        if self.kinds:
            rows = layout.columns_and_kinds_to_rows(columns, np.frombuffer(self.kinds, np.int8))
            return SourceRecords(rows=rows, timestamps=timestamps)
        if type_.arrow_type is None:
            return SourceRecords(rows=layout.columns_to_rows(columns), timestamps=timestamps)
        return SourceRecords(columns=columns, timestamps=timestamps)


class CacheFilling:
    """What one job has put into a cache until now; stays in the driver while its sink travels."""

    def __init__(self) -> None:
        self.batches: list[CachedBatch] = []
        self.last_epoch = -1


_fillings: WeakValueDictionary[str, CacheFilling] = WeakValueDictionary()


class CacheSink(Sink):
    """Has a cache hold the records of every complete epoch, each epoch once.

    Args:
        filling: takes them.
    """

    def __init__(self, filling: CacheFilling) -> None:
        self._id = uuid.uuid4().hex
        self._filling: CacheFilling | None = filling
        _fillings[self._id] = filling

    @property
    def is_durable(self) -> bool:
        return False

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _CacheWriter()

    def create_committer(self, context: CommitterContext) -> Committer:
        filling = self._filling or _fillings.get(self._id)
        if filling is None:
            raise CommitRefusedError("a cache is filled in the process that made it, and nowhere else")
        return _CacheCommitter(filling)

    def __getstate__(self) -> dict[str, Any]:
        return {"_id": self._id, "_filling": None}

    def __repr__(self) -> str:
        return "CacheSink()"


class _CacheWriter(SinkWriter):
    def __init__(self) -> None:
        self._batches: list[CachedBatch] = []

    def write(self, batch: Batch) -> None:
        self._batches.append(CachedBatch.of(batch))

    def prepare_commit(self) -> Sequence[Json]:
        batches, self._batches = self._batches, []
        return batches


class _CacheCommitter(Committer):
    def __init__(self, filling: CacheFilling) -> None:
        self._filling = filling

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        if epoch > self._filling.last_epoch:
            self._filling.batches += committables
            self._filling.last_epoch = epoch


class CachedSource(Source[Any]):
    """Reads a cache: the records with their timestamps, in the order in which they were put there.

    Args:
        batches: the records.
        type_info: their type.
    """

    def __init__(self, batches: Sequence[CachedBatch], type_info: TypeInformation) -> None:
        self._batches = batches
        self._type = type_info

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation[Any]:
        return self._type

    @property
    def reads_in_pieces(self) -> bool:
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        size = sum(len(batch.columns) for batch in self._batches) // max(len(self._batches), 1) + 1
        return RangeEnumerator("cache", len(self._batches), size)

    def create_reader(self) -> SourceReader:
        return _CacheReader(self._batches, self._type)

    def __repr__(self) -> str:
        return f"CachedSource({sum(batch.count for batch in self._batches)} records of {self._type})"


class _CacheReader(SourceReader):
    def __init__(self, batches: Sequence[CachedBatch], type_: TypeInformation) -> None:
        self._batches = batches
        self._type = type_

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for start, end in runs(piece):
            for batch in self._batches[start:end]:
                yield batch.records(self._type)
