"""Regular joins of changelogs, joins of bounded inputs (by hash, sorted, in nested loops), and what all joins share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

from headrace.common.logical_types import string
from headrace.graph.join_specs import BoundedJoinSpec, RegularJoinSpec
from headrace.operators.join.regular.definition import SideState, Uniqueness
from headrace.operators.join.results import JoinType
from headrace.table.bind.hints import time_to_live
from headrace.table.functions.types import CHARACTERS, is_in
from headrace.table.logical.join_keys import is_equality, is_true
from headrace.table.logical.relations import LogicalJoin, joined_schema
from headrace.table.logical.scalars import Call, Cast, InputRef, Scalar, all_of, conjuncts
from headrace.table.logical.schema import Schema, TimeAttribute, unique_names
from headrace.table.physical.basic import Exchange, projected
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, UpdateKind, forwarded, modify_kinds
from headrace.table.physical.keys import NO_KEYS, Keys
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.row_counts import bytes_of, has_one_row
from headrace.table.physical.translation import GraphBuilder, by_key, compiled

JOIN_NAMES: Final = {
    JoinType.INNER: "InnerJoin",
    JoinType.LEFT: "LeftOuterJoin",
    JoinType.RIGHT: "RightOuterJoin",
    JoinType.FULL: "FullOuterJoin",
    JoinType.SEMI: "LeftSemiJoin",
    JoinType.ANTI: "LeftAntiJoin",
}


@dataclass(frozen=True)
class JoinKeys:
    """The columns that a join compares for equality.

    Attributes:
        left: columns of the left input.
        right: the columns of the right input, in the same order.
        null_safe: whether NULL equals NULL, for each pair (``IS NOT DISTINCT FROM``).
        rest: the other conditions, over the columns of both inputs.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    null_safe: tuple[bool, ...]
    rest: tuple[Scalar, ...]

    @staticmethod
    def of(condition: Scalar, width: int) -> JoinKeys:
        """The keys in a condition over the columns of both inputs, given the width of the left one."""
        pairs: list[tuple[int, int, bool]] = []
        rest: list[Scalar] = []
        for each in conjuncts(condition):
            columns = [node.index for node in each.children if isinstance(node, InputRef)]
            if is_equality(each, width) and len(columns) == len(each.children):
                assert isinstance(each, Call)
                left, right = sorted(columns)
                pairs.append((left, right - width, each.function != "="))
            elif not is_true(each):
                rest.append(each)
        left_keys, right_keys, null_safe = zip(*pairs, strict=True) if pairs else ((), (), ())
        return JoinKeys(left_keys, right_keys, null_safe, tuple(rest))

    def strict(self, keys: Sequence[int]) -> tuple[int, ...]:
        """The keys of an input that are compared by ``=``, so that NULL matches nothing."""
        return tuple(key for key, is_safe in zip(keys, self.null_safe, strict=True) if not is_safe)


def pairs_of(left: Schema, right: Schema, kind: JoinType) -> Schema:
    """The columns of both inputs of a join."""
    both = joined_schema(left, right, JoinType.INNER if kind in (JoinType.SEMI, JoinType.ANTI) else kind)
    return both.renamed(unique_names(both.names))


@dataclass(frozen=True)
class AnyJoin(PhysicalNode):
    """The base class of joins on equal columns.

    Attributes:
        kind: the kind of join.
        condition: the condition over the columns of both inputs.
        keys: the columns that it compares for equality.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinType
    condition: Scalar
    keys: JoinKeys

    @cached_property
    def schema(self) -> Schema:
        return self.pairs if self.kind not in (JoinType.SEMI, JoinType.ANTI) else self.left.schema

    @cached_property
    def pairs(self) -> Schema:
        """The columns of both inputs."""
        return pairs_of(self.left.schema, self.right.schema, self.kind)

    def terms(self, text: ScalarText) -> Terms:
        yield "joinType", JOIN_NAMES[self.kind]
        yield "where", text(self.condition, self.pairs.names)
        yield "select", names_text(self.schema.names)

    def about(self, builder: GraphBuilder) -> dict[str, Any]:
        """The arguments that the specs of all joins have in common."""
        keys = self.keys
        return {
            "join_type": self.kind,
            "names": self.pairs.names,
            "condition": compiled(all_of(keys.rest), self.pairs, builder) if keys.rest else None,
            "strict_keys": (keys.strict(keys.left), keys.strict(keys.right)),
        }

    def keyed(self, inputs: Sequence[Edges]) -> tuple[Edges, Edges]:
        """The edges of both inputs, keyed by the join keys."""
        keys, left, right = self.keys, list(self.left.schema), list(self.right.schema)
        for one, other in zip(keys.left, keys.right, strict=True):
            if left[one].type.as_nullable() != right[other].type.as_nullable():  # CHAR(1) and STRING, say
                assert is_in(left[one].type, CHARACTERS), "keys of other types were cast to a common one"
                left[one], right[other] = replace(left[one], type=string()), replace(right[other], type=string())
        return by_key(inputs[0], Schema(tuple(left)), keys.left), by_key(inputs[1], Schema(tuple(right)), keys.right)


@dataclass(frozen=True)
class Join(AnyJoin):
    """A regular join of two changelogs, which keeps all rows of both in state.

    Attributes:
        ttl: the time to live of each input's rows, from a hint.
        hints: names of other hints, which change nothing, each with the side that it names.
        has_mini_batches: whether mini-batches are enabled, which plans show. Its changes are those of single records.
    """

    name: ClassVar[str] = "Join"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda node, inputs: forwarded(node, inputs) if node.only_forwards else Modify.ALL,
        needs=lambda node, index, wanted: node.needed(index, wanted),
    )
    ttl: tuple[str | None, str | None] = (None, None)
    has_mini_batches: bool = False
    hints: tuple[tuple[str, str], ...] = ()

    @property
    def only_forwards(self) -> bool:
        """Return whether append-only inputs give an append-only result."""
        return self.kind in (JoinType.INNER, JoinType.SEMI)

    def needed(self, index: int, wanted: UpdateKind) -> UpdateKind | None:
        """The update kind that it requires from an input."""
        return updates_needed((self.left, self.right)[index], (self.keys.left, self.keys.right)[index], wanted)

    def _keys_of(self, index: int) -> Keys:
        """The upsert keys of an input within a subtask."""
        return keys_in_subtask(self.right if index else self.left)

    def state_of(self, index: int, ttl: int = 0) -> SideState:
        """The state of an input's rows."""
        return side_state(self._keys_of(index), self.keys.right if index else self.keys.left, ttl)

    @property
    def upsert_keys(self) -> Keys:
        return keys_of_join(self.kind, self.keys, (self._keys_of(0), self._keys_of(1)), len(self.left.schema))

    def terms(self, text: ScalarText) -> Terms:
        yield from super().terms(text)
        yield "leftInputSpec", _SPECS[self.state_of(0).uniqueness]
        yield "rightInputSpec", _SPECS[self.state_of(1).uniqueness]
        if self.has_mini_batches:
            yield "miniBatch", "true"

    @property
    def identity(self) -> str:
        return replace(self, has_mini_batches=False).identity if self.has_mini_batches else super().identity

    def hint_terms(self) -> Terms:
        said = [f"{name}={ttl}" for name, ttl in zip(("LEFT", "RIGHT"), self.ttl, strict=True) if ttl is not None]
        if said:
            yield "stateTtlHints", f"[[STATE_TTL options:{{{names_text(said)}}}]]"
        if self.hints:
            yield "joinHints", f"[{''.join(f'[{name} options:[{side}]]' for name, side in self.hints)}]"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        states = [
            self.state_of(index, builder.state_ttl if ttl is None else time_to_live(ttl))
            for index, ttl in enumerate(self.ttl)
        ]
        sources = [[edge.source for edge in given] for given in inputs]
        itself = sources[0] == sources[1]
        spec = RegularJoinSpec(**self.about(builder), states=(states[0], states[1]), joins_itself=itself)
        return builder.add(spec, self.name, *self.keyed(inputs))


def keys_in_subtask(node: PhysicalNode) -> Keys:
    """The upsert keys of an input of a join within a subtask."""
    return node.input.upsert_keys if isinstance(node, Exchange) else node.upsert_keys


def updates_needed(node: PhysicalNode, join_key: Sequence[int], wanted: UpdateKind) -> UpdateKind | None:
    """The update kind that a join requires from an input, by the input's columns of the join key."""
    if wanted is not UpdateKind.ONLY_AFTER:
        return UpdateKind.BEFORE_AND_AFTER
    own = set(join_key)
    holds_key = any(own <= key for key in keys_in_subtask(node))
    return UpdateKind.ONLY_AFTER if holds_key or Modify.UPDATE not in modify_kinds(node) else None


def smallest_key(keys: Keys) -> tuple[int, ...]:
    """The first one of the smallest upsert keys, of which there is one."""
    return min((len(key), *sorted(key)) for key in keys)[1:]


def side_state(keys: Keys, join_key: Sequence[int], ttl: int = 0) -> SideState:
    """The state of the rows of an input, by its upsert keys and its columns of the join key."""
    if any(key <= set(join_key) for key in keys):
        return SideState(Uniqueness.ONE_ROW, (), ttl)
    return SideState(Uniqueness.UNIQUE_KEY, smallest_key(keys), ttl) if keys else SideState(Uniqueness.NONE, (), ttl)


_SPECS: Final = {
    Uniqueness.ONE_ROW: "JoinKeyContainsUniqueKey",
    Uniqueness.UNIQUE_KEY: "HasUniqueKey",
    Uniqueness.NONE: "NoUniqueKey",
}


def keys_of_join(kind: JoinType, keys: JoinKeys, given: tuple[Keys, Keys], width: int) -> Keys:
    """The upsert keys of a join, given those of its inputs."""
    own = set(keys.left), set(keys.right)
    # Changes of a row keep their order only if all meet in one subtask, to which the join key leads.
    left, right = ({key for key in given[index] if own[index] <= key} for index in (0, 1))
    if kind in (JoinType.SEMI, JoinType.ANTI):
        return frozenset(left)
    shifted = {frozenset(column + width for column in key) for key in right}
    found = {one | other for one in left for other in shifted}
    is_one = [any(key <= own[index] for key in given[index]) for index in (0, 1)]
    if is_one[1] and not kind.left_is_optional:
        found |= left
    if is_one[0] and not kind.right_is_optional:
        found |= shifted
    return frozenset(found) if found else NO_KEYS


@dataclass(frozen=True)
class HashJoin(AnyJoin):
    """A join of two bounded inputs.

    Attributes:
        builds_left: whether the left input is the build side in Flink's plan.
        is_of_one_row: whether the build side has one row at most.
        is_hinted: whether a hint requires it.
        has_smaller_left: whether, by statistics, the left input has fewer rows.
    """

    name: ClassVar[str] = "HashJoin"
    builds_left: bool = False
    is_of_one_row: bool = False
    is_hinted: bool = False
    has_smaller_left: bool = False

    @property
    def is_broadcast(self) -> bool:
        """Return whether an input is broadcast."""
        return any(isinstance(each, Exchange) and each.is_broadcast for each in self.inputs)

    def terms(self, text: ScalarText) -> Terms:
        yield from super().terms(text)
        if self.is_broadcast and self.name == HashJoin.name:
            yield "isBroadcast", "true"
        yield "build", "left" if self.builds_left else "right"
        if self.is_of_one_row:
            yield "singleRowJoin", "true"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(BoundedJoinSpec(**self.about(builder)), self.name, *self.keyed(inputs))


@dataclass(frozen=True)
class NestedLoopJoin(HashJoin):
    """A join of two bounded inputs without join keys."""

    name: ClassVar[str] = "NestedLoopJoin"


@dataclass(frozen=True)
class SortMergeJoin(HashJoin):
    """A join of two bounded inputs that a hint makes one of sorted inputs."""

    name: ClassVar[str] = "SortMergeJoin"

    def terms(self, text: ScalarText) -> Terms:
        yield from AnyJoin.terms(self, text)


def bounded_join(
    join: LogicalJoin,
    left: PhysicalNode,
    right: PhysicalNode,
    threshold: int | None = None,
    *,
    has_smaller_left: bool = False,
) -> PhysicalNode:
    """The join of two bounded inputs.

    Args:
        join: the join.
        left: its left input.
        right: its right input.
        threshold: the bytes of an input that plans show as broadcast, at most; None for Flink's default.
        has_smaller_left: whether, by statistics, the left input has fewer rows.
    """
    keys = JoinKeys.of(join.condition, len(left.schema))
    hint, side = next(iter(join.sides_of_hints), (None, None))
    if hint == "BROADCAST" and not _can_broadcast(join.kind, side):
        hint, side = None, None
    builds_left = _builds_left(join.kind, left, right) if hint in (None, "SHUFFLE_MERGE") else side == "LEFT"
    if keys.left and hint == "BROADCAST":
        inputs = _broadcast(left, right, builds_left=builds_left)
        return HashJoin(*inputs, join.kind, join.condition, keys, builds_left, has_smaller_left=has_smaller_left)
    is_small = bytes_of(left if builds_left else right) <= (_LARGEST_BROADCAST if threshold is None else threshold)
    shuffles = hint in ("SHUFFLE_HASH", "SHUFFLE_MERGE") or (not is_small and hint != "NEST_LOOP")
    if keys.left and shuffles:
        exchanges = Exchange(left, keys.left), Exchange(right, keys.right)
        kind = SortMergeJoin if hint == "SHUFFLE_MERGE" else HashJoin
        return kind(
            *exchanges,
            join.kind,
            join.condition,
            keys,
            builds_left,
            is_hinted=hint == "SHUFFLE_HASH",
            has_smaller_left=has_smaller_left,
        )
    if hint is None and join.kind in (JoinType.LEFT, JoinType.RIGHT):
        builds_left = join.kind is JoinType.RIGHT
    is_one = has_one_row(left if builds_left else right)
    inputs = _broadcast(left, right, builds_left=builds_left)
    if join.kind is JoinType.FULL and not keys.left:
        inputs = Exchange(left, ()), Exchange(right, ())
    return NestedLoopJoin(
        *inputs, join.kind, join.condition, keys, builds_left, is_one, has_smaller_left=has_smaller_left
    )


def _can_broadcast(kind: JoinType, side: str | None) -> bool:
    """Return whether every task may have an input whole: not if rows of it are kept that have no partner."""
    if kind in (JoinType.SEMI, JoinType.ANTI):
        return side == "RIGHT"
    return not (kind.right_is_optional if side == "LEFT" else kind.left_is_optional)


def _broadcast(left: PhysicalNode, right: PhysicalNode, *, builds_left: bool) -> tuple[PhysicalNode, PhysicalNode]:
    """The inputs, of which the build side is sent to all tasks."""
    if builds_left:
        return Exchange(left, is_broadcast=True), right
    return left, Exchange(right, is_broadcast=True)


def _builds_left(kind: JoinType, left: PhysicalNode, right: PhysicalNode) -> bool:
    """Return whether Flink's plan builds the left input: the smaller one, where the kind of join leaves a choice."""
    if kind in (JoinType.SEMI, JoinType.ANTI) or has_one_row(right):
        return False
    return bytes_of(left) <= bytes_of(right)


_LARGEST_BROADCAST: Final = 1 << 20
"""The bytes of an input that Flink sends to all tasks, at most, unless the program sets another limit."""


def regular_join(join: LogicalJoin, left: PhysicalNode, right: PhysicalNode) -> PhysicalNode:
    """The regular join of two changelogs, whose result has no time attributes."""
    left, right = without_times(left), without_times(right)
    keys = JoinKeys.of(join.condition, len(left.schema))
    exchanges = Exchange(left, keys.left), Exchange(right, keys.right)
    return Join(*exchanges, join.kind, join.condition, keys, join.state_ttl, hints=join.sides_of_hints)


def without_times(node: PhysicalNode) -> PhysicalNode:
    """A node with its time attributes materialized: rows that wait for matches are out of time order."""
    if not any(field.time for field in node.schema):
        return node
    return projected(node, [_value(ref) for ref in InputRef.all_of(node.schema)], node.schema.names)


def _value(column: InputRef) -> Scalar:
    if column.time is TimeAttribute.ROWTIME:
        return Cast(column, type=column.type)
    return column if column.time is None else Call("PROCTIME_MATERIALIZE", (column,), type=column.type)
