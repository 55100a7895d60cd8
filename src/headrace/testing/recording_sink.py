"""``RecordingSink``: keeps what reaches the end of a stream for the test to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.connectors.sink import Committer, Sink, SinkWriter
from headrace.exchange.payload import decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import CommitterContext, Json, WriterContext


class RecordingSink(Sink):
    """Keeps the records of complete epochs, in epoch order and within one in the order of each subtask.

    Attributes:
        records: the records so far, each with its timestamp.
    """

    def __init__(self) -> None:
        self.records: list[tuple[Any, int]] = []

    @property
    def is_durable(self) -> bool:
        return False

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer()

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Committer(self.records, context.input_type)

    def __getstate__(self) -> dict[str, Any]:
        return {"records": []}


class _Writer(SinkWriter):
    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, batch: Batch) -> None:
        self._parts.append(encode(batch, None, None))

    def prepare_commit(self) -> Sequence[Json]:
        parts, self._parts = self._parts, []
        return parts


class _Committer(Committer):
    def __init__(self, records: list[tuple[Any, int]], record_type: TypeInformation) -> None:
        self._records = records
        self._type = record_type

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        for part in committables:
            batch = decode(part, self._type, None)
            self._records.extend(zip(batch.rows, batch.timestamps.tolist(), strict=True))
