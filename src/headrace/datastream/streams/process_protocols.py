"""What type checkers ask of a function of the user that is an object: it sees more than the record, or two streams.

Most yield records, or pairs of an ``OutputTag`` and what goes to the side output of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.common.type_variables import K_contra, OUT_co, T_contra, V_contra, W_contra

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.output_tag import ToSideOutput
    from headrace.datastream.functions import (
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
        KeyedProcessFunction,
        ProcessFunction,
        ProcessJoinFunction,
        ProcessWindowFunction,
    )


class SupportsProcess(Protocol[T_contra, OUT_co]):
    """A ``ProcessFunction``, or whatever has its method."""

    def process_element(
        self, value: T_contra, ctx: ProcessFunction.Context, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record."""


class SupportsKeyedProcess(Protocol[T_contra, OUT_co, K_contra]):
    """A ``KeyedProcessFunction``, or whatever has its method."""

    def process_element(
        self, value: T_contra, ctx: KeyedProcessFunction.Context[K_contra], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record."""


class SupportsApply(Protocol[T_contra, OUT_co, K_contra, W_contra]):
    """A ``WindowFunction``, or whatever has its method."""

    def apply(
        self, key: K_contra, window: W_contra, inputs: Iterable[T_contra], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires."""


class SupportsProcessWindow(Protocol[T_contra, OUT_co, K_contra, W_contra]):
    """A ``ProcessWindowFunction``, or whatever has its method."""

    def process(
        self, key: K_contra, context: ProcessWindowFunction.Context[W_contra], elements: Iterable[T_contra], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires."""


class SupportsProcessJoin(Protocol[T_contra, V_contra, OUT_co]):
    """A ``ProcessJoinFunction``, or whatever has its method."""

    def process_element(
        self, left: T_contra, right: V_contra, ctx: ProcessJoinFunction.Context, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each pair of records that match."""


class SupportsCoMap(Protocol[T_contra, V_contra, OUT_co]):
    """A ``CoMapFunction``, or whatever has its methods."""

    def map1(self, value: T_contra, /) -> OUT_co | None:
        """Called for each record of the first stream."""

    def map2(self, value: V_contra, /) -> OUT_co | None:
        """Called for each record of the second stream."""


class SupportsCoFlatMap(Protocol[T_contra, V_contra, OUT_co]):
    """A ``CoFlatMapFunction``, or whatever has its methods."""

    def flat_map1(self, value: T_contra, /) -> Iterable[OUT_co] | None:
        """Called for each record of the first stream."""

    def flat_map2(self, value: V_contra, /) -> Iterable[OUT_co] | None:
        """Called for each record of the second stream."""


class SupportsCoProcess(Protocol[T_contra, V_contra, OUT_co]):
    """A ``CoProcessFunction``, a ``KeyedCoProcessFunction``, or whatever has their methods."""

    def process_element1(
        self, value: T_contra, ctx: KeyedCoProcessFunction.Context[Any], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the first stream."""

    def process_element2(
        self, value: V_contra, ctx: KeyedCoProcessFunction.Context[Any], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the second stream."""


class SupportsBroadcastProcess(Protocol[T_contra, V_contra, OUT_co]):
    """A ``BroadcastProcessFunction``, a ``KeyedBroadcastProcessFunction``, or whatever has their methods."""

    def process_element(
        self, value: T_contra, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[Any], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the stream that is not broadcast."""

    def process_broadcast_element(
        self, value: V_contra, ctx: KeyedBroadcastProcessFunction.Context[Any], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the stream that is broadcast."""
