"""What type checkers ask of a function of the user that sees more than the record: its timestamp, its key, its window.

Such a function yields records, or pairs of an ``OutputTag`` and what goes to the side output of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.common.type_variables import K_contra, OUT_co, T_contra, V_contra, W_contra

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.output_tag import ToSideOutput
    from headrace.datastream.functions import (
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
