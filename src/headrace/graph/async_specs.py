"""What operators do that make requests to services, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.graph.specs import FunctionSpec

if TYPE_CHECKING:
    from headrace.operators.asynchronous.async_operator import Grouping
    from headrace.operators.asynchronous.requests import RequestSettings


@dataclass(frozen=True, slots=True)
class AsyncSpec(FunctionSpec):
    """An ``AsyncFunction``, or an ``AsyncBatchFunction``: any number of records for each record.

    Attributes:
        settings: how requests are made.
        grouping: which records share a request; None where each has its own.
    """

    settings: RequestSettings
    grouping: Grouping | None = None

    kind: ClassVar[str] = "AsyncWait"
    is_timeless: ClassVar[bool] = True
    is_deterministic: ClassVar[bool] = False
