"""Multi-joins: joins on one key as one node, which keeps no results of joins in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from headrace.graph.join_specs import MultiJoinSpec
from headrace.operators.join.regular.definition import SideState
from headrace.operators.join.results import JoinType
from headrace.table.bind.hints import time_to_live
from headrace.table.logical.relations import LogicalJoin, joined_schema
from headrace.table.logical.scalars import InputRef, Scalar, moved
from headrace.table.logical.schema import Schema, unique_names
from headrace.table.options import MULTI_JOIN
from headrace.table.physical.basic import Calc, Exchange, projected
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, UpdateKind, forwarded
from headrace.table.physical.conversion import ConversionContext
from headrace.table.physical.joins import (
    JoinKeys,
    keys_in_subtask,
    keys_of_join,
    side_state,
    smallest_key,
    updates_needed,
    without_times,
)
from headrace.table.physical.keys import Keys
from headrace.table.physical.literal_text import record_type_text
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder, by_key, compiled

_KINDS: Final = (JoinType.INNER, JoinType.LEFT)


@dataclass(frozen=True)
class MultiJoin(PhysicalNode):
    """Joins of several changelogs, each with those before it, on one key.

    Attributes:
        arms: the inputs, distributed by the key.
        kinds: the kind of each join.
        conditions: the condition of each join, over the columns of the inputs up to its right one.
        keys: the columns of the key in each input.
        ttl: the time to live of each input's rows, from a hint.
    """

    name: ClassVar[str] = "MultiJoin"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda node, inputs: forwarded(node, inputs) if set(node.kinds) == {JoinType.INNER} else Modify.ALL,
        needs=lambda node, index, wanted: node.needed(index, wanted),
    )
    arms: tuple[PhysicalNode, ...]
    kinds: tuple[JoinType, ...]
    conditions: tuple[Scalar, ...]
    keys: tuple[tuple[int, ...], ...]
    ttl: tuple[str | None, ...]

    @cached_property
    def schema(self) -> Schema:
        found = self.arms[0].schema
        for kind, arm in zip(self.kinds, self.arms[1:], strict=True):
            found = joined_schema(found, arm.schema, kind)
        return found.renamed(unique_names([name for arm in self.arms for name in arm.schema.names]))

    @property
    def widths(self) -> list[int]:
        """The number of columns of each input."""
        return [len(arm.schema) for arm in self.arms]

    def needed(self, index: int, wanted: UpdateKind) -> UpdateKind | None:
        """The update kind that it requires from an input."""
        return updates_needed(self.arms[index], self.keys[index], wanted)

    @property
    def upsert_keys(self) -> Keys:
        found, width = keys_in_subtask(self.arms[0]), self.widths[0]
        for kind, condition, arm in zip(self.kinds, self.conditions, self.arms[1:], strict=True):
            found = keys_of_join(kind, JoinKeys.of(condition, width), (found, keys_in_subtask(arm)), width)
            width += len(arm.schema)
        return found

    def terms(self, text: ScalarText) -> Terms:
        names, first = self.schema.names, self.arms[0].schema.names
        yield "commonJoinKey", names_text([first[index] for index in self.keys[0]])
        yield "joinTypes", names_text([kind.name for kind in self.kinds])
        yield "inputUniqueKeys", names_text([_unique_key_text(arm) for arm in self.arms])
        if any(self.ttl):
            yield "stateTtlHints", f"[[STATE_TTL options:[{names_text([each or '0s' for each in self.ttl])}]]]"
        yield "joinConditions", names_text([text(condition, names) for condition in self.conditions])
        yield "select", ",".join(names)
        yield "rowType", record_type_text(names, self.schema.types, [field.time for field in self.schema])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        pairs = zip(self.arms, self.keys, self.ttl, strict=True)
        spec = MultiJoinSpec(
            names=self.schema.names,
            states=tuple(_state(arm, keys, builder, ttl) for arm, keys, ttl in pairs),
            optional=(False, *(kind is JoinType.LEFT for kind in self.kinds)),
            conditions=(None, *(compiled(each, self.schema, builder) for each in self.conditions)),
        )
        edges = zip(inputs, self.arms, self.keys, strict=True)
        return builder.add(spec, self.name, *(by_key(given, arm.schema, keys) for given, arm, keys in edges))


def _state(arm: PhysicalNode, keys: Sequence[int], builder: GraphBuilder, ttl: str | None) -> SideState:
    return side_state(keys_in_subtask(arm), keys, builder.state_ttl if ttl is None else time_to_live(ttl))


def _unique_key_text(arm: PhysicalNode) -> str:
    keys = keys_in_subtask(arm)
    if not keys:
        return "noUniqueKey"
    names = arm.schema.names
    return f"({names_text([names[index] for index in smallest_key(keys)])})"


def multi_join(
    join: LogicalJoin, left: PhysicalNode, right: PhysicalNode, context: ConversionContext
) -> PhysicalNode | None:
    """The join as a multi-join, or as part of the multi-join on its left; None where it is neither.

    Args:
        join: the join.
        left: its left input.
        right: its right input.
        context: the context of the statement.
    """
    is_hinted = any(name == "MULTI_JOIN" for name, _ in join.sides_of_hints)
    if join.kind not in _KINDS or not (context.settings.get(MULTI_JOIN) or is_hinted):
        return None
    left, right = without_times(left), without_times(right)
    keys = JoinKeys.of(join.condition, len(left.schema))
    if not keys.left or not all(_have_one_type(left, right, keys)):
        return None
    return _with_further(join, left, right, keys) or MultiJoin(
        (Exchange(left, keys.left), Exchange(right, keys.right)),
        (join.kind,),
        (join.condition,),
        (keys.left, keys.right),
        join.state_ttl,
    )


def _have_one_type(left: PhysicalNode, right: PhysicalNode, keys: JoinKeys) -> list[bool]:
    """Return whether the columns of each pair of the key have the same type, so that equal values have one hash."""
    types = left.schema.types, right.schema.types
    pairs = zip(keys.left, keys.right, strict=True)
    return [types[0][one].as_nullable() == types[1][other].as_nullable() for one, other in pairs]


def _with_further(join: LogicalJoin, left: PhysicalNode, right: PhysicalNode, keys: JoinKeys) -> PhysicalNode | None:
    """The multi-join on the left with one more input; None if there is none, or the key is another one."""
    columns = InputRef.all_of(left.schema)
    if isinstance(left, Calc) and left.condition is None and all(isinstance(e, InputRef) for e in left.expressions):
        columns, left = tuple(each for each in left.expressions if isinstance(each, InputRef)), left.input
    if not isinstance(left, MultiJoin):
        return None
    width = len(left.schema)
    compared = {columns[one].index: other for one, other in zip(keys.left, keys.right, strict=True)}
    common = _common_key(left, compared)
    if not common:
        return None
    places = {place: column.index for place, column in enumerate(columns)}
    places |= {len(columns) + place: width + place for place in range(len(right.schema))}
    own = [tuple(of_arm[place] for place in common) for of_arm in left.keys]
    own.append(tuple(common.values()))
    arms = [arm.input if isinstance(arm, Exchange) else arm for arm in left.arms]
    made = MultiJoin(
        tuple(Exchange(arm, of_arm) for arm, of_arm in zip((*arms, right), own, strict=True)),
        (*left.kinds, join.kind),
        (*left.conditions, moved(join.condition, places)),
        tuple(own),
        (*left.ttl, join.state_ttl[1]),
    )
    kept = [InputRef.of(made.schema, places[place]) for place in range(len(places))]
    return projected(made, kept, unique_names(join.schema.names))


def _common_key(left: MultiJoin, compared: dict[int, int]) -> dict[int, int]:
    """The parts of the key that a further join compares as well, with the column of its right input for each."""
    found: dict[int, int] = {}
    start = 0
    for width, of_arm in zip(left.widths, left.keys, strict=True):
        for place, column in enumerate(of_arm):
            if start + column in compared:
                found.setdefault(place, compared[start + column])
        start += width
    return dict(sorted(found.items()))
