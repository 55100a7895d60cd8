"""Two-phase window aggregates: a local one in each sender, and a global one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Final

from headrace.table.functions.types import BIGINT
from headrace.table.logical.relations import WindowKind
from headrace.table.logical.scalars import AggregateCall
from headrace.table.logical.schema import Schema
from headrace.table.physical.basic import Exchange
from headrace.table.physical.keys import Keys
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.phases import merging_texts, partial_texts
from headrace.table.physical.translation import GraphBuilder
from headrace.table.physical.window_aggregates import WindowAggregate
from headrace.table.physical.windows import WindowingStrategy

_UNMERGED: Final = frozenset(("FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE", "JSON_ARRAYAGG", "JSON_OBJECTAGG"))
"""Functions whose partial results cannot be merged."""

_COUNT: Final = AggregateCall("COUNT", (), BIGINT.not_null())


@dataclass(frozen=True)
class LocalWindowAggregate(PhysicalNode):
    """Partial aggregates of the rows of each sender, by window and group.

    It translates to nothing: the planner of the graph decides whether senders pre-aggregate records or send them as
    they are. So its columns are those of its input.

    Attributes:
        start_column: the column of window starts, if windows are in columns.
    """

    name: ClassVar[str] = "LocalWindowAggregate"
    passes_rows: ClassVar[bool] = True
    input: PhysicalNode
    window: WindowingStrategy
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    time_column: int
    start_column: int | None
    is_attached: bool

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        keys = [names[index] for index in self.group]
        if keys:
            yield "groupBy", names_text(keys)
        start = "" if self.start_column is None else f"win_start=[{names[self.start_column]}], "
        place = (
            f"{start}win_end=[{names[self.time_column]}]"
            if self.is_attached
            else f"time_col=[{names[self.time_column]}]"
        )
        yield "window", self.window.text(place)
        end = "$window_end" if self.is_attached else "$slice_end"
        retracts = not self.input.mode.is_insert_only
        calls = counted(self.calls, self.window, retracts=retracts)
        texts = partial_texts(calls, names, retracts=retracts)
        yield "select", names_text([*keys, *texts, f"slice_end('w$) AS {end}"])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return inputs[0]


@dataclass(frozen=True)
class GlobalWindowAggregate(WindowAggregate):
    """Aggregates of each window and group, from the accumulators of senders and from rows."""

    name: ClassVar[str] = "GlobalWindowAggregate"
    has_two_phases: ClassVar[bool] = True

    @property
    def window_text(self) -> str:
        return self.window.text("win_end=[$window_end]" if self.is_attached else "slice_end=[$slice_end]")

    @property
    def call_texts(self) -> list[str]:
        return list(merging_texts(counted(self.calls, self.window, retracts=self.retracts), retracts=self.retracts))


def counted(calls: Sequence[AggregateCall], window: WindowingStrategy, *, retracts: bool) -> Sequence[AggregateCall]:
    """The calls, with a count of rows where the global aggregate has to know whether a window has any left."""
    is_counted = any(call == _COUNT for call in (replace(each, name=None) for each in calls))
    return calls if is_counted or not (retracts or window.kind is WindowKind.HOP) else (*calls, _COUNT)


def in_two_phases(node: WindowAggregate, start_column: int | None) -> WindowAggregate:
    """The aggregate in two phases if its functions can be merged, as in Flink's planner."""
    if node.window.kind is WindowKind.SESSION or node.window.is_of_clock:
        return node
    if any(call.function in _UNMERGED for call in node.calls):
        return node
    assert isinstance(node.input, Exchange)
    start = start_column if node.is_attached else None
    local = LocalWindowAggregate(
        node.input.input, node.window, node.group, node.calls, node.time_column, start, node.is_attached
    )
    exchange = node.input.with_inputs((local,))
    given = {field.name: getattr(node, field.name) for field in fields(node)}
    return GlobalWindowAggregate(**(given | {"input": exchange}))
