"""Functions over matches of two streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

from headrace.common.type_variables import OUT_co, T_contra, V_contra
from headrace.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.output_tag import ToSideOutput


class ProcessJoinFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Works on the pairs of an interval join; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import ProcessJoinFunction
        >>> from headrace.testing import JobHarness
        >>> class Delay(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield f"{left} paid after {ctx.get_right_timestamp() - ctx.get_left_timestamp()} ms"
        >>> def job(harness):
        ...     orders = harness.add_source("orders", str).key_by(lambda order: order)
        ...     payments = harness.add_source("payments", str).key_by(lambda order: order)
        ...     joined = orders.interval_join(payments).between(0, 60_000)
        ...     harness.add_sink("delays", joined.process(Delay(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push("orders", "a1", timestamp=1_000)
        ...     harness.push("payments", "a1", timestamp=3_500)
        ...     harness.finish()
        ...     print(harness.results("delays"))
        ['a1 paid after 2500 ms']
    """

    class Context(ABC):
        """What a function learns about the pair; only valid during the call."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """The event time of the left record, in milliseconds."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """The event time of the right record, in milliseconds."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """The event time of what is emitted: the later one of both."""

    @abstractmethod
    def process_element(
        self, left: T_contra, right: V_contra, ctx: ProcessJoinFunction.Context
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each pair of records that match, once.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """
