"""``DriverSink``: the root of sinks that hand the records of complete epochs to an object in the driver."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import CommitRefusedError
from headrace.connectors.sink import Committer, Sink, SinkWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import CommitterContext, Json, WriterContext


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Some records, encoded, which takes a fraction of the memory of Python objects.

    Attributes:
        columns: they, as an Arrow message.
        kinds: what they do in a changelog, where some are no insertions and the columns do not say it; else empty.
        times: their event times, as bytes of 64-bit integers; empty where nobody asks for them.
        count: how many there are.
    """

    columns: bytes
    kinds: bytes
    times: bytes
    count: int

    @classmethod
    def of(cls, batch: Batch, *, with_times: bool = True) -> EncodedRecords:
        """The records of a batch."""
        if batch.is_columnar or batch.type.arrow_type is not None:
            # The batch knows who has made a record that does not fit.
            columns, kinds = batch.columns, batch.kinds_beside_columns
        else:
            columns, kinds = layout_of(batch.type).rows_to_columns_and_kinds(batch.rows)
        times = np.ascontiguousarray(batch.timestamps).tobytes() if with_times else b""
        return cls(columns.serialize().to_pybytes(), b"" if kinds is None else kinds.tobytes(), times, len(batch))

    @property
    def size(self) -> int:
        """How many bytes they take."""
        return len(self.columns) + len(self.kinds) + len(self.times)

    @property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """Their event times."""
        return np.frombuffer(self.times, np.int64)

    def as_columns(self, type_: TypeInformation) -> pa.RecordBatch:
        """They as columns; what they do in a changelog these do not say."""
        return pa.ipc.read_record_batch(pa.py_buffer(self.columns), layout_of(type_).schema)

    def as_rows(self, type_: TypeInformation) -> list[Any]:
        """They as Python objects."""
        layout, columns = layout_of(type_), self.as_columns(type_)
        if self.kinds:
            return layout.columns_and_kinds_to_rows(columns, np.frombuffer(self.kinds, np.int8))
        return layout.columns_to_rows(columns)


class Receiver:
    """What takes records in the driver; it stays there while the sink travels."""

    def __init__(self) -> None:
        self._last_epochs: dict[str, int] = {}

    def commit(self, job_id: str, epoch: int, records: Sequence[EncodedRecords], type_: TypeInformation) -> None:
        """Takes the records of an epoch of a job, if they are not the ones that it has taken already."""
        if epoch > self._last_epochs.get(job_id, -1):
            if records:
                self.take(records, type_)
            self._last_epochs[job_id] = epoch

    @abstractmethod
    def take(self, records: Sequence[EncodedRecords], type_: TypeInformation) -> None:
        """Takes the records of an epoch; called in the committer's thread, and may block to slow the job down."""


_receivers: WeakValueDictionary[str, Receiver] = WeakValueDictionary()


class DriverSink(Sink):
    """Hands over the records of every complete epoch, in epoch order, each epoch once.

    Within an epoch the records of a subtask keep their order. The sink may be pickled; the receiver stays behind.

    Args:
        receiver: takes the records.

    Class attributes:
        keeps_times: whether the receiver asks for event times.
    """

    keeps_times: ClassVar[bool] = True

    def __init__(self, receiver: Receiver) -> None:
        self._id = uuid.uuid4().hex
        self._receiver: Receiver | None = receiver
        _receivers[self._id] = receiver

    @property
    def is_durable(self) -> bool:
        return False

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _DriverWriter(with_times=self.keeps_times)

    def create_committer(self, context: CommitterContext) -> Committer:
        receiver = self._receiver or _receivers.get(self._id)
        if receiver is None:
            raise CommitRefusedError(f"a {type(self).__name__} only works in the process that made it")
        return _DriverCommitter(receiver, context)

    def __getstate__(self) -> dict[str, Any]:
        return {"_id": self._id, "_receiver": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _DriverWriter(SinkWriter):
    def __init__(self, *, with_times: bool) -> None:
        self._with_times = with_times
        self._records: list[EncodedRecords] = []

    def write(self, batch: Batch) -> None:
        self._records.append(EncodedRecords.of(batch, with_times=self._with_times))

    def prepare_commit(self) -> Sequence[Json]:
        records, self._records = self._records, []
        return records


class _DriverCommitter(Committer):
    def __init__(self, receiver: Receiver, context: CommitterContext) -> None:
        self._receiver = receiver
        self._job_id = context.job_id
        self._type = context.input_type

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        self._receiver.commit(self._job_id, epoch, committables, self._type)
