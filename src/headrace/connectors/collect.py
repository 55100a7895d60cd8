"""``CollectSink``: gives the records of a stream to the driver's own program."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import CommitRefusedError
from headrace.connectors.sink import Committer, Sink, SinkWriter

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import CommitterContext, Json, WriterContext

Receiver = Callable[[list[Any]], None]
"""Takes the records of an epoch; called in the committer's thread, and may block to slow the job down."""


class _Target:
    """Where records are handed to; stays in the driver while the sink travels."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.last_epoch = -1


_targets: WeakValueDictionary[str, _Target] = WeakValueDictionary()


class CollectSink(Sink):
    """Calls a function in the driver with the records of every complete epoch, in epoch order, each epoch once.

    Within an epoch the records of a subtask keep their order. The sink may be pickled; the receiver stays behind.

    Args:
        receiver: takes a list of records.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._id = uuid.uuid4().hex
        self._target: _Target | None = _Target(receiver)
        _targets[self._id] = self._target

    @property
    def is_durable(self) -> bool:
        return False

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _CollectWriter(context.input_type)

    def create_committer(self, context: CommitterContext) -> Committer:
        target = self._target or _targets.get(self._id)
        if target is None:
            raise CommitRefusedError("a CollectSink only works in the process that made it")
        return _CollectCommitter(target, context.input_type)

    def __getstate__(self) -> dict[str, Any]:
        return {"_id": self._id, "_target": None}

    def __repr__(self) -> str:
        return "CollectSink()"


class _CollectWriter(SinkWriter):
    """Keeps the records encoded, which takes a fraction of the memory of Python objects."""

    def __init__(self, input_type: TypeInformation) -> None:
        self._layout = layout_of(input_type)
        self._parts: list[tuple[bytes, bytes]] = []

    def write(self, batch: Batch) -> None:
        if (
            batch.is_columnar or batch.type.arrow_type is not None
        ):  # the batch knows who has made a record that does not fit
            columns, kinds = batch.columns, batch.kinds_beside_columns
        else:
            columns, kinds = self._layout.rows_to_columns_and_kinds(batch.rows)
        self._parts.append((columns.serialize().to_pybytes(), b"" if kinds is None else kinds.tobytes()))

    def prepare_commit(self) -> Sequence[Json]:
        parts, self._parts = self._parts, []
        return parts


class _CollectCommitter(Committer):
    def __init__(self, target: _Target, input_type: TypeInformation) -> None:
        self._target = target
        self._layout = layout_of(input_type)

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        if epoch <= self._target.last_epoch:
            return
        rows: list[Any] = []
        for columns, kinds in committables:
            batch = pa.ipc.read_record_batch(pa.py_buffer(columns), self._layout.schema)
            if kinds:
                rows += self._layout.columns_and_kinds_to_rows(batch, np.frombuffer(kinds, np.int8))
            else:
                rows += self._layout.columns_to_rows(batch)
        if rows:
            self._target.receiver(rows)
        self._target.last_epoch = epoch
