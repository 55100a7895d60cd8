"""``CollectSink``: gives the records of a stream to the driver's own program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from headrace.connectors.driver_sink import DriverSink, Receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.driver_sink import EncodedRecords


class CollectSink(DriverSink):
    """Calls a function in the driver with the records of every complete epoch, in epoch order, each epoch once.

    Args:
        receiver: takes a list of records; it is called in the committer's thread, and may block to slow the job down.
    """

    keeps_times: ClassVar[bool] = False

    def __init__(self, receiver: Callable[[list[Any]], None]) -> None:
        super().__init__(_Called(receiver))


class _Called(Receiver):
    def __init__(self, receiver: Callable[[list[Any]], None]) -> None:
        super().__init__()
        self._receiver = receiver

    def take(self, records: Sequence[EncodedRecords], type_: TypeInformation) -> None:
        rows = [row for part in records for row in part.as_rows(type_)]
        if rows:
            self._receiver(rows)
