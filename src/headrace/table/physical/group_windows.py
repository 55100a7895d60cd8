"""Physical nodes for group window functions: ``GROUP BY TUMBLE(...)``, ``HOP`` and ``SESSION``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

from headrace.graph.table_window_specs import TableWindowSpec
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import WindowKind
from headrace.table.logical.scalars import AggregateCall, Call, InputRef, Scalar
from headrace.table.logical.schema import Field, Schema, TimeAttribute, renumbered, unique_names
from headrace.table.options import ALLOW_LATENESS, EARLY_FIRE, EARLY_FIRE_DELAY, LATE_FIRE, LATE_FIRE_DELAY
from headrace.table.physical.aggregates import GroupAggregate, operations
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.call_texts import call_texts
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, with_before
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder, by_key
from headrace.table.physical.windows import WindowingStrategy, WindowTableFunction
from headrace.table.rules import group_windows as rules
from headrace.windowing.definition import AccumulationMode, WindowDefinition
from headrace.windowing.early_and_late import EarlyAndLateTrigger

_PARTS: Final = ("w$start", "w$end", "w$rowtime", "w$proctime")
_NAMES: Final = {
    WindowKind.TUMBLE: "TumblingGroupWindow",
    WindowKind.HOP: "SlidingGroupWindow",
    WindowKind.SESSION: "SessionGroupWindow",
}


@dataclass(frozen=True, slots=True)
class Emission:
    """Early and late firings of windows (``table.exec.emit.*``), in milliseconds.

    Attributes:
        early: the interval of early firings, 0 for each row; None for no early firings.
        late: the interval of late firings; None for no late firings.
        lateness: the allowed lateness.
    """

    early: int | None = None
    late: int | None = None
    lateness: int = 0

    @property
    def updates(self) -> bool:
        """Return whether results are updated."""
        return self.early is not None or (self.late is not None and self.lateness > 0)

    @property
    def has_trigger(self) -> bool:
        """Return whether windows need a trigger of their own."""
        return self.early is not None or bool(self.late and self.lateness)

    def of(self, definition: WindowDefinition, *, is_event_time: bool) -> WindowDefinition:
        """A window definition with these firings."""
        if not self.updates:
            return definition
        late = self.late if self.lateness else None
        trigger = EarlyAndLateTrigger(self.early, late, is_event_time) if self.has_trigger else definition.trigger
        return replace(
            definition,
            trigger=trigger,
            allowed_lateness=0 if late is None else self.lateness,
            accumulation_mode=AccumulationMode.ACCUMULATING_AND_RETRACTING,
        )


@dataclass(frozen=True)
class GroupWindowAggregate(PhysicalNode):
    """Aggregates of the rows of each window and group, followed by start, end and time of the window.

    Attributes:
        window: the windows.
        time_column: the column of times.
        group: the grouping columns besides the window.
        emission: early and late firings.
    """

    name: ClassVar[str] = "GroupWindowAggregate"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda node, _: Modify.UPDATE if node.emission.updates else Modify.INSERT, needs=with_before, adapts=True
    )
    input: PhysicalNode
    window: WindowingStrategy
    time_column: int
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    columns: tuple[Field, ...]
    emission: Emission

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        fields = [given[index] for index in self.group] + [Field("", call.type) for call in self.calls]
        return Schema((*fields, *self.columns)).renamed(unique_names((*self.names, *_PARTS[: len(self.columns)])))

    @property
    def properties(self) -> list[str]:
        """The properties of windows that plans show: all of them, if a query reads one."""
        return [part for part in _PARTS if self.columns and (part != "w$rowtime" or not self.window.is_of_clock)]

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        selected = call_texts(self.calls, self.names[len(self.group) :], names, retracts=False)
        parts = [f"{part.removeprefix('w$')}('w$) AS {part}" for part in self.properties]
        yield from self.terms_of(self.properties, [*selected, *parts])

    def terms_of(self, properties: Sequence[str], selected: Sequence[str]) -> Terms:
        """The terms with these properties of windows, and selected calls."""
        names = self.input.schema.names
        keys = [names[index] for index in self.group]
        if keys:
            yield "groupBy", names_text(keys)
        sizes = [self.window.size] if self.window.step is None else [self.window.size, self.window.step]
        shown = ", ".join(["'w$", names[self.time_column], *map(str, sizes)])
        yield "window", f"{_NAMES[self.window.kind]}({shown})"
        if properties:
            yield "properties", names_text(properties)
        yield "select", names_text([*keys, *selected])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        if builder.is_batch:
            return builder.translate(self._bounded())
        width, names = len(self.group), self.schema.names
        definition = self.emission.of(self.window.definition, is_event_time=not self.window.is_of_clock)
        spec = TableWindowSpec(
            definition,
            operations(self.calls, names[width : width + len(self.calls)], self.input),
            windows=self.window.columnar,
            time_field=None if self.window.is_of_clock else self.time_column,
            time_type=self.columns[2].type,
            zone=self.window.zone(builder),
            retracts=not self.input.mode.is_insert_only,
            is_columnar=self.window.is_columnar and not self.emission.has_trigger,
            names=names[-3:],
            timers_wait=False,
        )
        return builder.add(spec, self.name, by_key(inputs[0], self.input.schema, self.group, names[:width]))

    def _bounded(self) -> PhysicalNode:
        """The aggregate in batch mode, with the same columns."""
        assert isinstance(self.input, Exchange)
        named = tuple(field.named(name) for field, name in zip(self.columns, _PARTS, strict=False))
        function = WindowTableFunction(self.input.input, self.window, self.time_column, named)
        width, keys = len(self.input.schema), len(self.group)
        group = (*self.group, width, width + 1, width + 2)
        names = (*self.names[:keys], *_PARTS[:3], *self.names[keys:])
        grouped = GroupAggregate(Exchange(function, group), group, self.calls, names)
        places = [*range(keys), *range(keys + 3, len(group) + len(self.calls)), *range(keys, len(group))]
        refs = tuple(InputRef.of(grouped.schema, place) for place in places)
        return Calc(grouped, refs, tuple(grouped.schema.names[place] for place in places))


@conversion_rule(rules.LogicalGroupWindowAggregate)
def _group_window(relation: rules.LogicalGroupWindowAggregate, context: ConversionContext) -> PhysicalNode:
    if relation.problem:
        raise PlanningError(relation.problem)
    _check_sizes(relation)
    source = converted(relation.input, context)
    time = source.schema[relation.time_column]
    is_of_clock = time.time is TimeAttribute.PROCTIME
    window = WindowingStrategy(relation.kind, relation.size, relation.step, 0, time.type, is_of_clock)
    keys = tuple(index for place, index in enumerate(relation.group) if place != relation.window)
    names = tuple(name for place, name in enumerate(relation.names) if place != relation.window)
    end, row_time, _ = relation.parts_columns
    columns = (end, end, row_time)
    if window.is_session and (context.settings.get(EARLY_FIRE) or context.settings.get(LATE_FIRE)):
        raise PlanningError("SESSION windows fire only at their end: table.exec.emit.* is not supported for them")
    if context.is_batch and window.is_session:
        raise PlanningError("Unaligned windows like session are not supported in batch mode yet.")
    names = (*names[: len(keys)], *renumbered(names[len(keys) :], len(keys)))
    node = GroupWindowAggregate(
        Exchange(source, keys), window, relation.time_column, keys, relation.calls, names, columns, _emission(context)
    )
    return _with_parts(relation, node, len(keys))


def _check_sizes(relation: rules.LogicalGroupWindowAggregate) -> None:
    for size in (relation.size, relation.step):
        if size is not None and size <= 0:
            raise PlanningError(f"{relation.kind.value} requires positive sizes, and one is {size} ms")


def _emission(context: ConversionContext) -> Emission:
    settings = context.settings
    return Emission(
        settings.get(EARLY_FIRE_DELAY) if settings.get(EARLY_FIRE) else None,
        settings.get(LATE_FIRE_DELAY) if settings.get(LATE_FIRE) else None,
        settings.get(ALLOW_LATENESS),
    )


def _with_parts(relation: rules.LogicalGroupWindowAggregate, node: PhysicalNode, keys: int) -> PhysicalNode:
    """The columns in the order of the relation; the node has those of the window last."""
    width, schema = keys + len(relation.calls), relation.schema
    places = [*range(width)]
    places.insert(relation.window, width)
    places += [width + 1, width + 2]
    columns: list[Scalar] = [
        InputRef(place, type=schema[at].type, time=schema[at].time) for at, place in enumerate(places)
    ]
    columns.append(Call("PROCTIME", (), type=schema[-1].type, time=TimeAttribute.PROCTIME))
    names = [*relation.names]
    names[relation.window] = _PARTS[0]
    return Calc(node, tuple(columns), unique_names((*names, *_PARTS[1:])))
