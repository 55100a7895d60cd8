"""Advice on streaming plans (``EXPLAIN PLAN_ADVICE``): Flink's two and others, by a table of analyzers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from math import prod
from typing import Final

from headrace.common.configuration import Configuration
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.common.options import PARALLELISM
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Scan
from headrace.table.logical.scalars import Call, InputRef, conjuncts, input_refs
from headrace.table.options import (
    AGG_PHASES,
    MINI_BATCH,
    MINI_BATCH_LATENCY,
    MINI_BATCH_SIZE,
    NON_DETERMINISTIC_UPDATES,
    STATE_TTL,
)
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, WatermarkAssigner
from headrace.table.physical.changes import ChangelogNormalize
from headrace.table.physical.determinism import with_deterministic_updates
from headrace.table.physical.joins import AnyJoin, Join
from headrace.table.physical.mini_batches import has_two_phases
from headrace.table.physical.multi_joins import MultiJoin
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.over import ChangingOverAggregate
from headrace.table.physical.ranks import Rank
from headrace.table.physical.sinks import Sink
from headrace.table.physical.temporal_joins import LookupJoin
from headrace.table.physical.vector_search import VectorSearchTableFunction


@dataclass(frozen=True)
class Advice:
    """Advice on nodes of a plan.

    Attributes:
        text: what to do.
        nodes: the nodes; none for advice on the whole query.
        is_warning: whether results may be wrong without it.
    """

    text: str
    nodes: frozenset[PhysicalNode] = frozenset()
    is_warning: bool = False

    @property
    def line(self) -> str:
        """The text with its kind."""
        return f"[{'WARNING' if self.is_warning else 'ADVICE'}] {self.text}"


class StatementText:
    """The places of clauses in a statement, which its plan does not have; none without its text."""

    def place(self, kind: str, tables: frozenset[str]) -> str:
        """The place of the only clause of a kind over some tables, as `` at line 1, column 8``; empty if not known.

        Args:
            kind: ``JOIN``, ``GROUP BY``, ``FROM`` or ``TABLE``.
            tables: the full paths of the tables.
        """
        return ""

    def aliases(self, left: str, right: str) -> tuple[str, str] | None:
        """The names by which the only join of two tables refers to them; None if not known."""
        return None


@dataclass(frozen=True)
class AnalyzedPlan:
    """A plan that analyzers look at.

    Attributes:
        roots: the plans of statements that become one job.
        settings: the configuration of the session.
        statistics: what is known of the rows of a table.
        text: the text of the statements.
    """

    roots: Sequence[PhysicalNode]
    settings: Configuration
    statistics: Callable[[Scan], Statistics | None] = field(default=lambda _: None)
    text: StatementText = field(default_factory=StatementText)

    @property
    def nodes(self) -> Iterator[PhysicalNode]:
        """All nodes."""
        return (node for root in self.roots for node in root.walk())

    def named(self, node: PhysicalNode) -> str:
        """The name of an operator, and its place in the text."""
        kind = "GROUP BY" if isinstance(node, GroupAggregate) else "JOIN" if isinstance(node, _JOINS) else "FROM"
        return f"{node.title}{self.text.place(kind, _tables(node))}"


_JOINS: Final = (AnyJoin, MultiJoin, LookupJoin)

Analyzer = Callable[[AnalyzedPlan], Iterable[Advice]]


def advice_on(plan: AnalyzedPlan) -> list[Advice]:
    """The advice on a plan; nodes of which the same is said share it."""
    found: dict[tuple[str, bool], frozenset[PhysicalNode]] = {}
    for analyzer in ANALYZERS:
        for each in analyzer(plan):
            key = each.text, each.is_warning
            found[key] = found.get(key, frozenset()) | each.nodes
    return [Advice(text, nodes, is_warning) for (text, is_warning), nodes in found.items()]


def advice_text(found: Sequence[Advice]) -> str:
    """The text of the advice below a plan, whose nodes refer to it by number."""
    if not found:
        return "No available advice..."
    return "\n".join(f"advice[{number}]: {each.line}" for number, each in enumerate(found, 1))


# --- Flink's ---------------------------------------------------------------------------------------------------------


def _two_phases(plan: AnalyzedPlan) -> Iterator[Advice]:
    """Aggregates that could be put together before rows are sent (``GroupAggregationAnalyzer``)."""
    groups = frozenset(node for node in plan.nodes if type(node) is GroupAggregate and has_two_phases(node))
    if not groups:
        return
    settings, wanted = plan.settings, list[str]()
    if settings.get(AGG_PHASES) == "ONE_PHASE":
        wanted.append(f"'{AGG_PHASES.key}' to 'AUTO'")
    if not settings.get(MINI_BATCH):
        wanted.append(f"'{MINI_BATCH.key}' to 'true'")
    if settings.get(MINI_BATCH_LATENCY) <= 0:
        wanted.append(f"'{MINI_BATCH_LATENCY.key}' to a positive long value")
    if settings.get(MINI_BATCH_SIZE) <= 0:
        wanted.append(f"'{MINI_BATCH_SIZE.key}' to a positive long value")
    text = "You might want to enable local-global two-phase optimization by configuring"
    yield Advice(f"{text} ({', '.join(wanted)}).", groups)


def _non_deterministic_updates(plan: AnalyzedPlan) -> Iterator[Advice]:
    """Retractions that may be other rows than those that they take back (``NonDeterministicUpdateAnalyzer``)."""
    key = NON_DETERMINISTIC_UPDATES.key
    if plan.settings.get(NON_DETERMINISTIC_UPDATES) != "IGNORE":
        return
    for root in plan.roots:
        try:
            resolved = with_deterministic_updates(root, plan.settings)
        except PlanningError as error:
            yield Advice(str(error), is_warning=True)
            continue
        if resolved is not root:
            text = (
                f"You might want to enable upsert materialization for look up join operator by configuring ('{key}' to "
                "'TRY_RESOLVE') to resolve the correctness issue caused by 'Non-Deterministic Updates' (NDU) in a "
                "changelog pipeline."
            )
            yield Advice(text, is_warning=True)


# --- headrace's ------------------------------------------------------------------------------------------------------


def _kept(node: PhysicalNode) -> str | None:
    """The state that a node stores forever without a time to live; None for state that ends by itself."""
    if isinstance(node, GroupAggregate):
        return "an accumulator of each group" if node.group and node.ttl is None else None
    if isinstance(node, Join | MultiJoin):
        return None if all(each is not None for each in node.ttl) else "all rows of its inputs"
    if isinstance(node, Rank):
        return "the rows of each group that may have a rank" if node.partition_by else None
    if isinstance(node, Sink):
        return "the rows of each key of the table" if node.materializes else None
    if isinstance(node, LookupJoin):
        return "what it found of each row" if node.materializes else None
    return next((what for kind, what in _KEPT.items() if isinstance(node, kind)), None)


_KEPT: Final[dict[type[PhysicalNode], str]] = {
    ChangelogNormalize: "the last row of each key",
    ChangingOverAggregate: "all rows of each partition",
}


def _unbounded_state(plan: AnalyzedPlan) -> Iterator[Advice]:
    """State that grows as long as the job runs."""
    if plan.settings.get(STATE_TTL):
        return
    for node in plan.nodes:
        kept = _kept(node)
        if kept is None:
            continue
        can_hint = isinstance(node, GroupAggregate | Join | MultiJoin)
        hint = ", or for it alone by the hint /*+ STATE_TTL('table' = '1 d') */ behind SELECT" if can_hint else ""
        yield Advice(
            f"{plan.named(node)} keeps {kept}, for ever. If no row matters any more after a day, say, write "
            f"SET '{STATE_TTL.key}' = '1 d'{hint}.",
            frozenset({node}),
        )


def _interval_joins(plan: AnalyzedPlan) -> Iterator[Advice]:
    """Regular joins of rows with times, which an interval join would forget once they are too old to match."""
    for node in plan.nodes:
        if not isinstance(node, Join) or not all(child.mode.is_insert_only for child in node.inputs):
            continue
        left, right = (_rowtime(child) for child in node.inputs)
        if left is None or right is None:
            continue
        one, other = _time_names(plan, left, right)
        yield Advice(
            f"{plan.named(node)} is a regular join, and both inputs have event time. If rows that belong together are "
            f"near to each other in time, bound it on both sides, by AND {other} BETWEEN {one} - INTERVAL '1' HOUR AND "
            f"{one} + INTERVAL '1' HOUR, say: that makes it an interval join, which forgets rows that match no more.",
            frozenset({node}),
        )


def _time_names(
    plan: AnalyzedPlan, left: tuple[TableSourceScan, str], right: tuple[TableSourceScan, str]
) -> tuple[str, str]:
    """The times of both inputs of a join, as its condition refers to them."""
    (one, time), (other, another) = left, right
    paths = ".".join(one.scan.path), ".".join(other.scan.path)
    names = plan.text.aliases(*paths) or (one.scan.path[-1], other.scan.path[-1])
    if names[0] == names[1]:
        names = "left_input", "right_input"
    return f"{names[0]}.{time}", f"{names[1]}.{another}"


def _rowtime(node: PhysicalNode) -> tuple[TableSourceScan, str] | None:
    """The table and the rowtime attribute of rows that come from it as they are."""
    while isinstance(node, Exchange | Calc):
        node = node.input
    if not isinstance(node, WatermarkAssigner):
        return None
    table = next((each for each in node.walk() if isinstance(each, TableSourceScan)), None)
    return None if table is None else (table, node.schema.names[node.rowtime])


def _missing_watermarks(plan: AnalyzedPlan) -> Iterator[Advice]:
    """Operators on times that are plain columns, for want of a watermark."""
    for node in plan.nodes:
        for child, index, instead in _plain_times(node):
            found = _origin(child, index)
            if found is None:
                continue
            scan, column = found
            table = ".".join(scan.scan.path)
            place = plan.text.place("TABLE", frozenset({table}))
            yield Advice(
                f"{plan.named(node)} goes by the time '{column}' of table {table}{place}, which has no watermark: add "
                f"WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND to its definition, and it is {instead}.",
                frozenset({node}),
            )


def _plain_times(node: PhysicalNode) -> Iterator[tuple[PhysicalNode, int, str]]:
    """The columns with plain times that a node goes by, with what it would be by event time."""
    if isinstance(node, Rank) and (node.start, node.end) == (1, 1) and len(node.order_by) == 1:
        yield from _if_plain(node.input, node.order_by[0].index, "a deduplication, which keeps one row of each key")
    if isinstance(node, ChangingOverAggregate):
        instead = "an OVER aggregate in event time, which updates no row that it has given"
        yield from _if_plain(node.input, node.order_by[0].index, instead)
    if isinstance(node, Join):
        instead = "an interval join if times are bounded on both sides, which forgets rows that match no more"
        width = len(node.left.schema)
        for condition in (each for rest in node.keys.rest for each in conjuncts(rest)):
            columns = sorted(set(input_refs(condition)))
            is_of_both = len(columns) == 2 and columns[0] < width <= columns[1]
            if is_of_both and isinstance(condition, Call) and condition.function in _COMPARISONS:
                yield from _if_plain(node.left, columns[0], instead)
                yield from _if_plain(node.right, columns[1] - width, instead)


_COMPARISONS: Final = ("<", "<=", ">", ">=", "=")
_TIMES: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def _if_plain(node: PhysicalNode, index: int, instead: str) -> Iterator[tuple[PhysicalNode, int, str]]:
    column = node.schema[index]
    if column.time is None and isinstance(column.type, AtomicType) and column.type.root in _TIMES:
        yield node, index, instead


def _origin(node: PhysicalNode, index: int) -> tuple[TableSourceScan, str] | None:
    """The table, without a watermark, that a column comes from as it is, and its name there."""
    while isinstance(node, Exchange | Calc | ChangelogNormalize):
        if isinstance(node, Calc):
            column = node.expressions[index]
            if not isinstance(column, InputRef):
                return None
            index = column.index
        node = node.input
    return (node, node.schema.names[index]) if isinstance(node, TableSourceScan) else None


_SHARE_OF_NULLS: Final = 0.2
"""The least share of rows with a NULL in the key that advice is given on."""


def _skew(plan: AnalyzedPlan) -> Iterator[Advice]:
    """Keys of which it is known that they load some subtasks more than others."""
    for node in plan.nodes:
        for child in node.inputs:
            if isinstance(child, Exchange) and child.keys:
                yield from _of_keys(plan, node, child, child.keys)


def _of_keys(plan: AnalyzedPlan, node: PhysicalNode, child: PhysicalNode, keys: Sequence[int]) -> Iterator[Advice]:
    known = [_known(plan, child, key) for key in keys]
    names = ", ".join(child.schema.names[key] for key in keys)
    if len(known) == 1 and known[0] is not None:
        rows, column = known[0]
        share = (column.nulls or 0) / rows if rows else 0.0
        if share >= _SHARE_OF_NULLS:
            todo = "they match nothing: WHERE ... IS NOT NULL leaves them out" if isinstance(node, Join) else _SPREAD
            yield Advice(
                f"{plan.named(node)} distributes rows by '{names}', which is NULL in {share:.0%} of them: all these go "
                f"to one subtask. {todo[0].upper()}{todo[1:]}.",
                frozenset({node}),
            )
    values = [None if each is None else _distinct(each[1]) for each in known]
    subtasks = plan.settings.get(PARALLELISM)
    counts = [each for each in values if each is not None]
    if subtasks is not None and len(counts) == len(values) and (count := prod(counts)) < subtasks:
        yield Advice(
            f"{plan.named(node)} distributes rows by '{names}', which has {count:,.0f} values at most: of its "
            f"{subtasks} subtasks some have nothing to do. {_SPREAD[0].upper()}{_SPREAD[1:]}.",
            frozenset({node}),
        )


_SPREAD: Final = (
    f"with '{MINI_BATCH.key}' = 'true' rows are put together before they are sent, and a key of more columns spreads "
    "them"
)


def _known(plan: AnalyzedPlan, node: PhysicalNode, index: int) -> tuple[int, ColumnStatistics] | None:
    """The number of rows of the table that a column comes from, and what is known of the column."""
    while isinstance(node, Exchange | Calc | WatermarkAssigner | ChangelogNormalize):
        if isinstance(node, Calc):
            column = node.expressions[index]
            if not isinstance(column, InputRef):
                return None
            index = column.index
        node = node.input
    found = plan.statistics(node.scan) if isinstance(node, TableSourceScan) else None
    return None if found is None else (found.rows, found.column(node.schema.names[index]))


def _distinct(column: ColumnStatistics) -> float | None:
    """The largest possible number of different values, as far as it is known."""
    if column.distinct is not None:
        return column.distinct
    lowest, highest = column.lowest, column.highest
    if isinstance(lowest, bool) or lowest is None:
        return None
    if isinstance(lowest, int) and isinstance(highest, int):
        return highest - lowest + 1
    if type(lowest) is date and type(highest) is date:
        return (highest - lowest).days + 1
    return None


def _tables(node: PhysicalNode) -> frozenset[str]:
    """The names of the tables that a node reads."""
    found = {".".join(each.scan.path) for each in node.walk() if isinstance(each, TableSourceScan)}
    searched = (each for each in node.walk() if isinstance(each, LookupJoin | VectorSearchTableFunction))
    looked_up = {".".join(each.table.scan.scan.path) for each in searched}
    return frozenset(found | looked_up)


ANALYZERS: Final[tuple[Analyzer, ...]] = (
    _two_phases,
    _non_deterministic_updates,
    _unbounded_state,
    _interval_joins,
    _missing_watermarks,
    _skew,
)
"""The checks that give advice, in the order of the text; Flink's two come first."""
