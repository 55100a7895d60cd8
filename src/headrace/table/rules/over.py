"""``OVER`` calls in projections become a relation, between two projections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.table.functions.table import is_deterministic
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Filter, LogicalOverAggregate, OverFunction, Project, Relation
from headrace.table.logical.scalars import (
    Frame,
    FrameBound,
    FrameBoundKind,
    InputRef,
    Literal,
    OrderKey,
    OverCall,
    Scalar,
    SortKey,
    Subquery,
)
from headrace.table.rules.conditions import merged
from headrace.table.rules.purpose import PlanPurpose
from headrace.table.rules.rank import compared_constants

_RANKS = frozenset(("ROW_NUMBER", "RANK", "DENSE_RANK"))
_RANKING: Final = _RANKS | {"PERCENT_RANK", "CUME_DIST", "NTILE"}
_UP_TO_PEERS: Final = Frame(
    False, FrameBound(FrameBoundKind.UNBOUNDED_PRECEDING), FrameBound(FrameBoundKind.CURRENT_ROW)
)
_ADDED: Final = re.compile(r"\$\d+")
"""Names of columns that are computed for calls."""


@dataclass(frozen=True)
class _Window:
    """The partition, the order and the frame that calls of one node have in common."""

    partition_by: tuple[Scalar, ...]
    order_by: tuple[OrderKey, ...]
    frame: Frame | None

    @staticmethod
    def of(call: OverCall, *, is_batch: bool) -> _Window:
        # Ranking functions ignore the frame; in streams, that of ranks is the one of aggregates without any.
        frame = None if call.function in _RANKS else call.frame
        if call.function in ("RANK", "DENSE_RANK") and not is_batch:
            frame = _UP_TO_PEERS
        return _Window(call.partition_by, call.order_by, frame)


def with_over_aggregates(relation: Relation, purpose: PlanPurpose) -> Relation:
    """The relation without ``OVER`` calls in projections."""
    if not purpose.is_shown:
        return relation.transform(lambda node: _split(node, is_batch=purpose.is_batch))
    shown = relation.transform(lambda node: _split_for_explain(node, purpose))
    return shown.transform(_below_filter) if purpose.is_batch else shown


def with_calls_merged(relation: Relation) -> Relation:
    """The relation with ``OVER`` calls over what projections below them read, in plans that are shown."""
    return relation.transform(_merged)


def _merged(relation: Relation) -> Relation:
    below = relation.input if isinstance(relation, Project) else None
    if not isinstance(relation, Project) or not isinstance(below, Project) or below.is_of_table:
        return relation
    if below.correlation is not None or _has_constants_below(below) or not any(map(_has_call, relation.expressions)):
        return relation
    if any(map(_has_call, below.expressions)) or not all(map(is_deterministic, below.expressions)):
        return relation
    made = merged(relation.expressions, below.expressions)
    return relation if made is None else _merged(replace(relation, input=below.input, expressions=tuple(made)))


def _has_constants_below(project: Project) -> bool:
    """Return whether columns of a projection may be constants by a filter below it."""
    below = project.input
    while isinstance(below, Project):
        below = below.input
    return bool(compared_constants(below))


def _has_call(scalar: Scalar) -> bool:
    return any(isinstance(node, OverCall | Subquery) for node in scalar.walk())


def _below_filter(relation: Relation) -> Relation:
    """A filter of all columns of the input and those of calls, below which nothing is pruned in batch mode."""
    project = relation.input if isinstance(relation, Filter) else None
    if not isinstance(relation, Filter) or not isinstance(project, Project):
        return relation
    if not isinstance(project.input, LogicalOverAggregate):
        return relation
    if project.names != tuple(name for name in project.input.schema.names if not _ADDED.fullmatch(name)):
        return relation
    return replace(relation, input=replace(project, input=replace(project.input, shows_all=True)))


def shows_all(project: Project, purpose: PlanPurpose) -> bool:
    """Return whether Flink's plan of ``OVER`` calls has all columns below them.

    That is so where all columns of the input are selected, and for streams where nothing else is computed.
    """
    if is_identity(project):
        return True
    return not purpose.is_batch and all(map(_is_column, project.expressions)) and not _has_constants(project)


def is_identity(project: Project) -> bool:
    """Return whether a projection appends columns of ``OVER`` calls to all those of its input."""
    width = len(project.input.schema)
    first, rest = project.expressions[:width], project.expressions[width:]
    is_same = all(isinstance(each, InputRef) and each.index == index for index, each in enumerate(first))
    return is_same and len(first) == width and len(set(rest)) == len(rest) and all(map(_is_plain_call, rest))


def _is_column(scalar: Scalar) -> bool:
    return isinstance(scalar, InputRef) or _is_plain_call(scalar)


def _is_plain_call(scalar: Scalar) -> bool:
    """Return whether a scalar is a call over columns, which plans show as such."""
    if not isinstance(scalar, OverCall) or scalar.function in ("SUM", "AVG"):
        return False
    return _reads_columns(scalar)


def _has_constants(project: Project) -> bool:
    """Return whether calls have literals as arguments, or as distances of their frames."""
    calls = [each for each in project.expressions if isinstance(each, OverCall)]
    bounds = [bound for call in calls for bound in (call.frame.low, call.frame.high)]
    operands = [each for call in calls for each in call.operands]
    return any(bound.offset is not None for bound in bounds) or any(isinstance(each, Literal) for each in operands)


def _split_for_explain(relation: Relation, purpose: PlanPurpose) -> Relation:
    """A projection with ``OVER`` calls as plans show it: below are all columns, and names are generated."""
    made = _split(relation, is_batch=purpose.is_batch, is_shown=True)
    if made is relation or not isinstance(relation, Project) or not isinstance(made, Project):
        return made
    if not purpose.is_batch and shows_all(relation, purpose) and isinstance(made.input, LogicalOverAggregate):
        made = replace(made, input=replace(made.input, shows_all=True))
    if is_identity(relation):
        is_ranked = any(isinstance(each, OverCall) and each.function in _RANKS for each in relation.expressions)
        return made if is_ranked and not purpose.is_batch else replace(made, names=made.input.schema.names)
    if not all(map(_is_column, relation.expressions)):
        return made
    pairs = enumerate(zip(relation.expressions, made.names, strict=True))
    names = tuple(f"${at}" if isinstance(each, OverCall) else name for at, (each, name) in pairs)
    return replace(made, names=names)


def _split(relation: Relation, *, is_batch: bool, is_shown: bool = False) -> Relation:
    if not isinstance(relation, Project):
        return relation
    calls = list(
        dict.fromkeys(node for each in relation.expressions for node in each.walk() if isinstance(node, OverCall))
    )
    if not calls:
        return relation
    below = _Below(relation.input)
    if is_shown and not all(map(_reads_columns, calls)):
        relation = replace(relation, expressions=tuple(map(below.computed, relation.expressions)))
    windows: dict[_Window, list[OverCall]] = {}
    for call in calls:
        windows.setdefault(_Window.of(call, is_batch=is_batch), []).append(call)
    prepared = {call: below.function(call) for call in calls}
    keys = {window: below.keys(window) for window in windows}
    for window, (_, order_by) in keys.items():
        _check_order(windows[window], order_by)
    kept = _read_above(relation.expressions) if is_shown else None
    if kept is not None:
        kept.update(*(each.operands for each in prepared.values()))
        for partition_by, order_by in keys.values():
            kept.update(partition_by, (key.index for key in order_by))
    node, places = below.relation(kept), dict[OverCall, InputRef]()
    for number, (window, of_window) in enumerate(windows.items()):
        partition_by, order_by = keys[window]
        width = len(node.schema)
        names = tuple(f"w{number}$o{place}" for place in range(len(of_window)))
        functions = tuple(prepared[call] for call in of_window)
        frame = window.frame or of_window[0].frame
        node = LogicalOverAggregate(node, partition_by, order_by, frame, functions, names, at=of_window[0].at)
        places |= {
            call: InputRef(width + place, type=call.type, time=call.time) for place, call in enumerate(of_window)
        }
    expressions = tuple(_replaced(each, places) for each in relation.expressions)
    return replace(relation, input=node, expressions=expressions)


def _check_order(calls: Sequence[OverCall], order_by: Sequence[SortKey]) -> None:
    """Refuse ranks in no order, or one of constants, which leaves open what the first row is.

    Raises:
        PlanningError: when it is one.
    """
    for call in calls:
        if call.function in _RANKING and not order_by:
            raise PlanningError(f"{call.function} needs an ORDER BY of columns: without one, rows are in no order")


def _replaced(scalar: Scalar, places: dict[OverCall, InputRef]) -> Scalar:
    if isinstance(scalar, OverCall):
        return places[scalar]
    parts = scalar.parts(Scalar)
    return scalar.with_parts(Scalar, [_replaced(part, places) for part in parts]) if parts else scalar


def _arguments(call: OverCall) -> tuple[Scalar, ...]:
    """The inputs of a call."""
    return (*call.operands, *call.partition_by, *(key.operand for key in call.order_by))


def _read_above(scalars: Sequence[Scalar]) -> set[int]:
    """The columns that scalars read other than by calls."""
    found = set[int]()
    for scalar in scalars:
        if isinstance(scalar, InputRef):
            found.add(scalar.index)
        elif not isinstance(scalar, OverCall):
            found |= _read_above(scalar.parts(Scalar))
    return found


def _reads_columns(call: OverCall) -> bool:
    return all(isinstance(each, InputRef | Literal) for each in _arguments(call))


class _Below:
    """The projection below: the columns of the input, and then arguments of calls that are not columns."""

    def __init__(self, given: Relation) -> None:
        self._given = given
        self._added: dict[Scalar, int] = {}

    def place(self, scalar: Scalar) -> int:
        """The column with the values of a scalar."""
        if isinstance(scalar, InputRef):
            return scalar.index
        return self._added.setdefault(scalar, len(self._given.schema) + len(self._added))

    def computed(self, scalar: Scalar) -> Scalar:
        """The column with the values of a scalar that plans show below calls, where these have one anyway."""
        if isinstance(scalar, Literal | InputRef) or _has_call(scalar):
            arguments = [each for node in scalar.walk() if isinstance(node, OverCall) for each in _arguments(node)]
            for each in (each for each in arguments if not isinstance(each, Literal)):
                self.place(each)
            return scalar
        return InputRef(self.place(scalar), type=scalar.type, time=scalar.time)

    def function(self, call: OverCall) -> OverFunction:
        operands = tuple(map(self.place, call.operands))
        return OverFunction(call.function, operands, call.type, call.is_distinct, call.ignores_nulls, call.options)

    def keys(self, window: _Window) -> tuple[tuple[int, ...], tuple[SortKey, ...]]:
        known = (each for each in window.partition_by if not isinstance(each, Literal))
        partition_by = tuple(sorted(set(map(self.place, known))))
        ordered = (key for key in window.order_by if not isinstance(key.operand, Literal))
        return partition_by, tuple(SortKey(self.place(key.operand), key.descending, key.nulls_first) for key in ordered)

    def relation(self, kept: set[int] | None) -> Relation:
        """The projection.

        Args:
            kept: the columns that are read, by whose places among them plans name computed ones; None if none is shown.
        """
        if not self._added:
            return self._given
        schema = self._given.schema
        columns: Sequence[Scalar] = [self._given.column(index) for index in range(len(schema))]
        added = range(len(schema), len(schema) + len(self._added))
        places = added if kept is None else [sum(each < index for each in kept) for index in added]
        names = (*schema.names, *(f"${place}" for place in places))
        return logical.Project(self._given, (*columns, *self._added), names)
