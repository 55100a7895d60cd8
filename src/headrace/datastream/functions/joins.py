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
            """The event time of the left record, in milliseconds; an error where there is none, in an outer join."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """The event time of the right record, in milliseconds; an error where there is none, in an outer join."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """The event time of what is emitted: the later one of both.

            Of a record without a partner it is the time at which that was sure.
            """

    @abstractmethod
    def process_element(
        self, left: T_contra, right: V_contra, ctx: ProcessJoinFunction.Context
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each pair of records that match, once; in an outer join also with None in place of a partner.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """


class JoinFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Makes one record of each pair of a window join; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import JoinFunction
        >>> class Paid(JoinFunction):
        ...     def join(self, first, second):
        ...         return first["id"], first["amount"] - second["amount"]
        >>> Paid().join({"id": "a1", "amount": 20}, {"amount": 15})
        ('a1', 5)

        ``orders.join(payments).where("id").equal_to("id").window(...).apply(Paid())`` gives that of all pairs.
    """

    @abstractmethod
    def join(self, first: T_contra, second: V_contra) -> OUT_co:
        """The record that a pair becomes; in an outer join one of both may be None."""


class FlatJoinFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Makes any number of records of each pair of a window join; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import FlatJoinFunction
        >>> class Open(FlatJoinFunction):
        ...     def join(self, first, second):
        ...         if first > second:
        ...             yield first - second
        >>> list(Open().join(20, 15)), list(Open().join(20, 20))
        ([5], [])
    """

    @abstractmethod
    def join(self, first: T_contra, second: V_contra) -> Iterable[OUT_co | ToSideOutput] | None:
        """Yields the records that a pair becomes; in an outer join one of both may be None."""


class CoGroupFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Works on all records of a key and a window, of two streams; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import CoGroupFunction
        >>> class Unpaid(CoGroupFunction):
        ...     def co_group(self, first, second):
        ...         if not list(second):
        ...             yield from first
        >>> list(Unpaid().co_group(["a1"], [])), list(Unpaid().co_group(["b2"], [20.0]))
        (['a1'], [])
    """

    @abstractmethod
    def co_group(self, first: Iterable[T_contra], second: Iterable[V_contra]) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each key and window that holds a record of one of the streams; yields results.

        Args:
            first: the records of the first stream, in the order in which they came; there may be none.
            second: those of the second one.
        """
