"""Non-deterministic updates (Flink's ``StreamNonDeterministicUpdatePlanVisitor``).

A retraction has to be equal to the row that it takes back. A column that is computed anew for the retraction, by
``UUID()`` say, or by a lookup in a table that has changed, would make it another row. Nodes that identify rows by
columns demand that these are deterministic, and each node passes the demand on to its inputs. The upsert keys of an
input meet it, and so do insertions, which are never taken back. A lookup join meets it by keeping what it found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Final

from headrace.common.configuration import Configuration
from headrace.operators.changelog.order import RankStrategy
from headrace.operators.join.results import JoinType
from headrace.table.functions.definitions import USER_FUNCTION, Determinism, FunctionDefinition
from headrace.table.functions.table import FUNCTIONS, definition_of_call
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import OverFunction
from headrace.table.logical.scalars import AggregateCall, Call, Cast, Scalar, input_refs
from headrace.table.logical.schema import TimeAttribute
from headrace.table.options import CDC_EVENTS_DUPLICATE, NON_DETERMINISTIC_UPDATES
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.basic import Calc, Expand, TableSourceScan
from headrace.table.physical.changelog_functions import ToChangelog
from headrace.table.physical.changes import ChangelogNormalize
from headrace.table.physical.correlates import Correlate, Replicate
from headrace.table.physical.group_windows import GroupWindowAggregate
from headrace.table.physical.joins import AnyJoin, keys_in_subtask
from headrace.table.physical.multi_joins import MultiJoin
from headrace.table.physical.node import PhysicalNode, node_line, tree_text
from headrace.table.physical.over import OverAggregate
from headrace.table.physical.ranks import Rank
from headrace.table.physical.scalar_text import CalciteText, calcite_text
from headrace.table.physical.sinks import Sink
from headrace.table.physical.temporal_joins import LookupJoin
from headrace.table.physical.times import read_by
from headrace.table.physical.window_aggregates import WindowAggregate
from headrace.table.physical.windows import WindowTableFunction

Columns = frozenset[int]

_NONE: Final[Columns] = frozenset()


def with_deterministic_updates(root: PhysicalNode, settings: Configuration) -> PhysicalNode:
    """A plan whose retractions are equal to the rows that they take back: lookup joins keep what they found if need be.

    Args:
        root: the plan, with the changelog of each node.
        settings: the configuration of the session.

    Raises:
        PlanningError: when a column that has to be deterministic is not.
    """
    duplicates = settings.get(CDC_EVENTS_DUPLICATE)

    def resolved(node: PhysicalNode, wanted: Columns) -> PhysicalNode:
        if isinstance(node, TableSourceScan) and not duplicates:
            _check_metadata(node, wanted)
        demands = _demanded(node, wanted)
        if isinstance(node, LookupJoin) and _has_to_keep(node, wanted):
            node = replace(node, materializes=True)
        inputs = [
            resolved(child, columns if isinstance(node, AnyJoin) else _beside_keys(child, columns))
            for child, columns in zip(node.inputs, demands, strict=True)
        ]
        is_same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        return node if is_same else node.with_inputs(inputs)

    return resolved(root, _NONE)


def _beside_keys(node: PhysicalNode, wanted: Columns) -> Columns:
    """The columns that the best of the upsert keys leaves, since keys are deterministic."""
    return min((wanted - key for key in sorted(node.upsert_keys, key=sorted)), key=len, default=wanted)


def _gets_insertions(node: PhysicalNode) -> bool:
    """Return whether all inputs are append-only, so that nothing is taken back."""
    return all(child.mode.is_insert_only for child in node.inputs)


def _all_of(node: PhysicalNode) -> Columns:
    return frozenset(range(len(node.schema)))


# --- what each node demands ------------------------------------------------------------------------------------------


@singledispatch
def _demanded(node: PhysicalNode, wanted: Columns) -> tuple[Columns, ...]:
    """The columns that have to be deterministic of each input, given those of the node; by default the same ones.

    Raises:
        PlanningError: when a node computes a column that is not deterministic.
    """
    return (wanted,) * len(node.inputs)


@_demanded.register
def _sink(node: Sink, _: Columns) -> tuple[Columns, ...]:
    if _gets_insertions(node):
        return (_NONE,)
    key = frozenset(node.target.primary_key)
    return (_all_of(node.input) if node.materializes or not key else key,)


@_demanded.register
def _calc(node: Calc, wanted: Columns) -> tuple[Columns, ...]:
    if _gets_insertions(node) or not wanted:
        return (_NONE,)
    _check_condition(node, node.condition)
    _check_columns(node, wanted, dict(enumerate(node.expressions)))
    return (frozenset(index for column in wanted for index in input_refs(node.expressions[column])),)


@_demanded.register
def _normalize(node: ChangelogNormalize, wanted: Columns) -> tuple[Columns, ...]:
    _check_condition(node, node.condition)
    return (wanted,)


@_demanded.register
def _correlate(node: Correlate | Replicate, wanted: Columns) -> tuple[Columns, ...]:
    if _gets_insertions(node) or not wanted:
        return (_NONE,)
    width = len(node.input.schema)
    if isinstance(node, Correlate):
        _check_condition(node, node.condition)
        _check_columns(node, wanted, dict.fromkeys(range(width, len(node.schema)), node.collection))
    return (frozenset(column for column in wanted if column < width),)


@_demanded.register
def _lookup(node: LookupJoin, wanted: Columns) -> tuple[Columns, ...]:
    if _gets_insertions(node) or not wanted:
        return (_NONE,)
    width = len(node.input.schema)
    _check_condition(node, node.condition)
    _check_condition(node, node.table.condition)
    _check_columns(node, wanted, dict(enumerate(node.table.expressions, width)))
    return (frozenset(column for column in wanted if column < width),)


def _has_to_keep(node: LookupJoin, wanted: Columns) -> bool:
    """Return whether a lookup join has to keep what it found, since the table may change before a row is taken back."""
    return not _gets_insertions(node) and any(column >= len(node.input.schema) for column in wanted)


@_demanded.register
def _aggregate(node: GroupAggregate | WindowAggregate | GroupWindowAggregate, wanted: Columns) -> tuple[Columns, ...]:
    if not _gets_insertions(node):
        return (_all_of(node.input),)
    _check_calls(node, wanted, dict(enumerate(node.calls, len(node.group))))
    return (_NONE,)


@_demanded.register
def _expand(node: Expand, wanted: Columns) -> tuple[Columns, ...]:
    columns = (each for projection in node.projections for place, each in enumerate(projection) if place in wanted)
    return (frozenset(each for each in columns if each is not None),)


@_demanded.register
def _join(node: AnyJoin, wanted: Columns) -> tuple[Columns, ...]:
    if not (_gets_insertions(node) and node.kind in (JoinType.INNER, JoinType.SEMI)):
        _check_condition(node, node.condition)
    return _of_inputs(node, wanted)


@_demanded.register
def _multi_join(node: MultiJoin, wanted: Columns) -> tuple[Columns, ...]:
    if _gets_insertions(node) and set(node.kinds) == {JoinType.INNER}:
        return (_NONE,) * len(node.inputs)
    for condition in node.conditions:
        _check_condition(node, condition)
    return _of_inputs(node, wanted)


def _of_inputs(node: PhysicalNode, wanted: Columns) -> tuple[Columns, ...]:
    """The columns that a join needs deterministic: all those of inputs without a key, since it finds rows by them."""
    demands, start = [], 0
    for child in node.inputs:
        width = len(child.schema)
        own = frozenset(column - start for column in wanted if start <= column < start + width)
        if child.mode.is_insert_only:
            own = _NONE
        elif not keys_in_subtask(child):
            own = _all_of(child)
        demands.append(own)
        start += width
    return tuple(demands)


@_demanded.register
def _over(node: OverAggregate, wanted: Columns) -> tuple[Columns, ...]:
    width = len(node.input.schema)
    if _gets_insertions(node):
        _check_calls(node, wanted, dict(enumerate(node.calls, width)))
        return (_NONE,)
    read = {operand for place, call in enumerate(node.calls, width) if place in wanted for operand in call.operands}
    own = {column for column in wanted if column < width}
    return (frozenset(own | read | {*node.partition_by} | {key.index for key in node.order_by}),)


@_demanded.register
def _rank(node: Rank, wanted: Columns) -> tuple[Columns, ...]:
    if _gets_insertions(node):
        return (_NONE,)
    if node.strategy is not RankStrategy.UPDATE:
        return (_all_of(node.input),)
    known = {*node.partition_by, *(key.index for key in node.order_by), len(node.input.schema)}
    return (wanted - known,)


@_demanded.register
def _windows(node: WindowTableFunction, wanted: Columns) -> tuple[Columns, ...]:
    return (_NONE if _gets_insertions(node) else wanted & _all_of(node.input),)


@_demanded.register
def _to_changelog(node: ToChangelog, _: Columns) -> tuple[Columns, ...]:
    return (_NONE if _gets_insertions(node) else _all_of(node.input),)


# --- what is not deterministic ---------------------------------------------------------------------------------------


def _name_of(definition: FunctionDefinition | None) -> str | None:
    """The name of a function that may give something else for the same arguments."""
    return None if definition is None or definition.determinism is Determinism.ALWAYS else definition.name


def _cause(scalar: Scalar | None) -> str | None:
    """The function for which a scalar is not deterministic; None if it is."""
    nodes = () if scalar is None else scalar.walk()
    return next(filter(None, map(_cause_of_node, nodes)), None)


def _cause_of_node(node: Scalar) -> str | None:
    if isinstance(node, Cast) and node.operand.time is TimeAttribute.PROCTIME:
        return "PROCTIME_MATERIALIZE"
    if not isinstance(node, Call):
        return None
    return node.function if read_by(node) is not None else _name_of(definition_of_call(node))


def _cause_of_call(call: AggregateCall | OverFunction) -> str | None:
    return _name_of(dict(call.options).get(USER_FUNCTION) or FUNCTIONS.get(call.function))


_text: Final = CalciteText(lambda index: f"${index}")


_WAY_OUT: Final = (
    "What to do: write into a table whose PRIMARY KEY has the columns by which the rows change: then only these have "
    "to stay the same; or compute such columns where rows are only inserted, and keep them in a table. "
    f"'{NON_DETERMINISTIC_UPDATES.key}' = 'IGNORE' plans the statement as it is."
)


def _check_condition(node: PhysicalNode, condition: Scalar | None) -> None:
    cause = _cause(condition)
    if cause is None or condition is None:
        return
    raise PlanningError(
        f"There exists non deterministic function: '{cause}' in condition: '{_text(condition)}' which may cause wrong "
        f"result in update pipeline.\n{_WAY_OUT}\nrelated rel plan:\n{_plan_text(node)}"
    )


def _check_columns(node: PhysicalNode, wanted: Columns, computed: Mapping[int, Scalar]) -> None:
    _check(node, {column: _cause(scalar) for column, scalar in computed.items() if column in wanted})


def _check_calls(
    node: PhysicalNode, wanted: Columns, computed: Mapping[int, AggregateCall] | Mapping[int, OverFunction]
) -> None:
    _check(node, {column: _cause_of_call(call) for column, call in computed.items() if column in wanted})


def _check(node: PhysicalNode, causes: Mapping[int, str | None]) -> None:
    names = node.schema.names
    found = [
        f"{names[column]}(generated by non-deterministic function: {cause} ) "
        for column, cause in sorted(causes.items())
        if cause
    ]
    if found:
        raise PlanningError(
            f"The column(s): {''.join(found)}can not satisfy the determinism requirement for correctly processing "
            "update message('UB'/'UA'/'D' in changelogMode, not 'I' only), this usually happens when input node has "
            "no upsertKey(upsertKeys=[{}]) or current node outputs non-deterministic update messages. Please consider "
            "removing these non-deterministic columns or making them deterministic by using deterministic functions.\n"
            f"{_WAY_OUT}\n\nrelated rel plan:\n{_plan_text(node)}"
        )


def _check_metadata(node: TableSourceScan, wanted: Columns) -> None:
    """Refuse metadata of a source of changes: that of a retraction is not that of the row that it takes back.

    Of an upsert source the row before is what is remembered of it, with its metadata.
    """
    mode, names = node.source.changelog_mode, node.schema.names
    found = [names[read.index] for read in node.scan.metadata if read.index in wanted]
    if found and mode.takes_update_before:
        raise PlanningError(
            f"The metadata column(s): '{', '.join(found)}' in cdc source may cause wrong result or error on downstream "
            "operators, please consider removing these columns or use a non-cdc source that only has insert messages.\n"
            f"{_WAY_OUT}\nsource node:\n{_plan_text(node)}"
        )


def _plan_text(node: PhysicalNode) -> str:
    """A plan as messages show it, with changelogs and upsert keys."""

    def line(each: PhysicalNode) -> str:
        return node_line(each, calcite_text, with_mode=True, with_keys=True)

    return tree_text(node, line, lambda each: each.inputs) + "\n"
