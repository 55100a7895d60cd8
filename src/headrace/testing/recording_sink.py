"""``RecordingSink``: keeps what reaches the end of a stream for the test to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.connectors.driver_sink import DriverSink, Receiver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.driver_sink import EncodedRecords


class RecordingSink(DriverSink):
    """Keeps the records of complete epochs, in epoch order and within one in the order of each subtask.

    Attributes:
        records: the records so far, each with its timestamp; in the process that made the sink.
    """

    def __init__(self) -> None:
        recorded = _Recorded()
        super().__init__(recorded)
        self.records: list[tuple[Any, int]] = recorded.records


class _Recorded(Receiver):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[Any, int]] = []

    def take(self, records: Sequence[EncodedRecords], type_: TypeInformation) -> None:
        for part in records:
            self.records.extend(zip(part.as_rows(type_), part.timestamps.tolist(), strict=True))
