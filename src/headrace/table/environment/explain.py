"""``EXPLAIN``: the plans of statements as text, with optional details, and the places that advice on them is about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.client.submission import plan_graph
from headrace.common.errors import UnsupportedOperationError
from headrace.datastream.streams.sinks import Handover
from headrace.graph.diagram import node_document
from headrace.graph.specs import SinkSpec
from headrace.graph.stream_graph import StreamGraph
from headrace.state.protocols import names_of
from headrace.table.catalog.manager import CatalogManager
from headrace.table.environment.table_result import ResultSink
from headrace.table.explain.advice import StatementText
from headrace.table.explain.text import explain_text
from headrace.table.logical.relations import Relation, Sink
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.node import SqlNode, walk
from headrace.table.parse.tree.queries import AliasedRelation, JoinRelation, SelectQuery, SqlRelation, TableReference
from headrace.table.parse.tree.statements import ExplainDetail

if TYPE_CHECKING:
    from headrace.table.environment.table_environment import TableEnvironment


def explained(
    tables: TableEnvironment,
    relations: Sequence[Relation],
    details: Sequence[ExplainDetail] = (),
    places: PlacesInText | None = None,
) -> str:
    """The text of ``EXPLAIN`` for statements that run as one job.

    Args:
        tables: the session.
        relations: the statements.
        details: what is shown besides their plans.
        places: the places in their text, which advice names.

    Raises:
        PlanningError: when they cannot be planned.
        UnsupportedOperationError: when a detail is not supported.
    """
    if ExplainDetail.PLAN_ADVICE in details and tables.is_batch:
        raise UnsupportedOperationError("EXPLAIN PLAN_ADVICE is not supported in batch mode: leave it out")
    text = explain_text(tables.planner(), relations, details, places)
    if ExplainDetail.JSON_EXECUTION_PLAN not in details:
        return text
    return f"{text}\n== Physical Execution Plan ==\n{json.dumps(_execution_plan(tables, relations), indent=2)}"


def _execution_plan(tables: TableEnvironment, relations: Sequence[Relation]) -> dict[str, Any]:
    """The operators in the shape of Flink's execution plan, with the stage, the state and the uid of each."""
    plan = plan_graph(_graph(tables, relations), tables.job_configuration(), None, 1)
    operators = [(operator, stage) for stage in plan.stages for operator in stage.operators]
    nodes = [
        node_document(operator.node, operator.inputs, operator.parallelism, operator.uid)
        | {"stage": stage.index, "state": names_of(operator.state_kinds)}
        for operator, stage in sorted(operators, key=lambda pair: pair[0].node.id)
    ]
    return {"nodes": nodes}


def _graph(tables: TableEnvironment, relations: Sequence[Relation]) -> StreamGraph:
    planner, graph = tables.planner(), tables.new_graph()
    is_collected = not all(isinstance(relation, Sink) for relation in relations)
    plans = planner.plan(relations, is_collected=is_collected)
    ends = []
    for edges, root in zip(planner.translated(plans, graph), plans, strict=True):
        sink = SinkSpec(ResultSink(Handover(), root.schema.names))
        ends += [graph.add(sink, "Collect", edges).id] if is_collected else [edge.source for edge in edges]
    return graph.subgraph(ends)


@dataclass(frozen=True)
class PlacesInText(StatementText):
    """Finds clauses of a statement by the tables that they are about, since nodes of plans do not know their places.

    Attributes:
        statement: the statement.
        source: its text.
        catalogs: where its tables are.
    """

    statement: SqlNode
    source: SqlSource
    catalogs: CatalogManager

    def place(self, kind: str, tables: frozenset[str]) -> str:
        found = [at for each, of, at in self._clauses if each == kind and of == tables]
        return f" at {self.source.position(found[0])}" if len(found) == 1 else ""

    def aliases(self, left: str, right: str) -> tuple[str, str] | None:
        joins = [node for node in walk(self.statement) if isinstance(node, JoinRelation)]
        found = [(self._name_of(node.left, left), self._name_of(node.right, right)) for node in joins]
        pairs = [(one, other) for one, other in found if one is not None and other is not None]
        return pairs[0] if len(pairs) == 1 else None

    def _name_of(self, relation: SqlRelation, table: str) -> str | None:
        """The name of a relation that reads a table alone; None for others."""
        references = [each for each in walk(relation) if isinstance(each, TableReference)]
        if [str(self.catalogs.qualify(each.table.texts)) for each in references] != [table]:
            return None
        return relation.alias.text if isinstance(relation, AliasedRelation) else references[0].table.texts[-1]

    @cached_property
    def _clauses(self) -> list[tuple[str, frozenset[str], int]]:
        return [clause for node in walk(self.statement) for clause in self._clauses_of(node)]

    def _clauses_of(self, node: SqlNode) -> Iterator[tuple[str, frozenset[str], int]]:
        if isinstance(node, TableReference):
            yield "TABLE", self._tables(node), node.start
        if isinstance(node, JoinRelation):
            yield "JOIN", self._tables(node), self._join_of(node)
        if isinstance(node, SelectQuery) and node.relation is not None:
            yield "FROM", self._tables(node.relation), node.relation.start
            if node.group_by is not None:
                yield "GROUP BY", self._tables(node.relation), node.group_by.start

    def _tables(self, node: SqlNode) -> frozenset[str]:
        references = (each for each in walk(node) if isinstance(each, TableReference))
        return frozenset(str(self.catalogs.qualify(each.table.texts)) for each in references)

    def _join_of(self, node: JoinRelation) -> int:
        """The offset of the keywords of a join, which stand between its sides."""
        between = self.source.text[node.left.end : node.right.start]
        return node.left.end + len(between) - len(between.lstrip())
