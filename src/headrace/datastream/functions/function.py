"""``Function``: what all functions of users have."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING

from headrace.operators.functions import does_nothing

if TYPE_CHECKING:
    from headrace.operators.functions import RuntimeContext


class Function(ABC):  # noqa: B024 - there is nothing that every function must have
    """The root of all functions.

    What ``__init__`` sets travels with the function, so it has to be picklable; connections, models and state are for
    ``open``. Attributes that change while records are processed are not state: after a failure they are gone.

    Examples:
        >>> from headrace.datastream import MapFunction, StreamExecutionEnvironment
        >>> class Price(MapFunction):
        ...     def open(self, runtime_context):  # once for each parallel instance
        ...         self.prices = {"tea": 2.5, "cake": 4.0}
        ...     def map(self, value):
        ...         return self.prices[value]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["cake", "tea"]).map(Price(), output_type=float).execute_and_collect(limit=10)
        [4.0, 2.5]
    """

    @does_nothing
    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once for each parallel instance before any record; the place to get state."""

    def close(self) -> None:
        """Called once for each parallel instance at the end of its life."""
