"""``AsyncFunction`` and ``AsyncBatchFunction``: functions of the user that are awaited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.signatures import method_of_object
from headrace.operators.asynchronous.intake import GroupIntake, RecordIntake
from headrace.operators.asynchronous.requesting_operator import RequestingOperator, out_of_time
from headrace.operators.asynchronous.requests import RequestFunction
from headrace.operators.functions import method_of

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.asynchronous.intake import Intake
    from headrace.operators.asynchronous.requests import RequestSettings


@dataclass(frozen=True, slots=True)
class Grouping:
    """Several records in one request.

    Attributes:
        size: how many.
        timeout: how long records wait for others, in milliseconds; None for as long as these keep coming.
    """

    size: int
    timeout: int | None


class AsyncOperator(RequestingOperator):
    """Calls a coroutine function for each record, or for some records at a time.

    Args:
        function: an ``AsyncFunction`` or a coroutine function; with a grouping, an ``AsyncBatchFunction``.
        output_type: the type of the results.
        settings: how requests are made.
        grouping: which records share a request; None where each has its own.
    """

    def __init__(
        self, function: Any, output_type: TypeInformation, settings: RequestSettings, grouping: Grouping | None = None
    ) -> None:
        super().__init__(function, output_type, settings, 1 if grouping is None else grouping.size)
        self._grouping = grouping
        self._methods = ("async_invoke", "timeout") if grouping is None else ("async_invoke_batch", "timeout_batch")
        self.maker = method_of(function, self._methods[0])

    def _called(self) -> RequestFunction:
        name, timeout = self._methods
        invoke = method_of(self._function, name)
        return RequestFunction(invoke, method_of_object(self._function, timeout) or out_of_time, invoke)

    def _make_intake(self) -> Intake:
        grouping = self._grouping
        if grouping is None:
            return RecordIntake(self._requests)
        return GroupIntake(self._requests, grouping.size, None if grouping.timeout is None else grouping.timeout / 1000)
