"""From the logical graph to the plan: passes over an immutable graph, each with one subject."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError
from headrace.graph.partitioning import Receivers
from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator, Stage
from headrace.plan.rewrites import REWRITES
from headrace.plan.stage_cut import StageCut
from headrace.plan.validation import validate, validate_parallelism
from headrace.state.backend import DEFAULT_BACKEND
from headrace.state.task_state import HashMapStateBackend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.graph.nodes import Edge, Node
    from headrace.graph.stream_graph import StreamGraph
    from headrace.state.backend import StateBackend


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What the planner has to know besides the graph.

    Attributes:
        name: the job's name.
        parallelism: subtasks of an operator that does not say otherwise.
        max_parallelism: key groups.
        is_batch: whether the job runs in batch mode.
        parameters: the job's configuration.
        fresh_instances: see :class:`JobPlan`.
        inline_threshold: see :class:`JobPlan`.
        state_backend: see :class:`JobPlan`.
    """

    name: str
    parallelism: int
    max_parallelism: int
    is_batch: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    fresh_instances: bool = False
    inline_threshold: int = 20 * 1024
    state_backend: StateBackend = field(default_factory=lambda: HashMapStateBackend(DEFAULT_BACKEND))


def plan_job(graph: StreamGraph, settings: PlanSettings) -> JobPlan:
    """Plan a job.

    Raises:
        InvalidProgramError: when the graph cannot be run; the message names the operator and the user's line.
    """
    validate(graph, settings.max_parallelism)
    explicit = frozenset(node.id for node in graph if node.uid is not None)
    uids = assign_uids(graph)
    graph = graph.transform(lambda node, _: (replace(node, uid=uids[node.id]),))
    for rewrite in REWRITES:
        graph = rewrite(graph)
    return _Planner(graph, settings, explicit).plan()


class _Planner:
    def __init__(self, graph: StreamGraph, settings: PlanSettings, explicit: frozenset[int]) -> None:
        self.graph = graph
        self.settings = settings
        self.explicit = explicit
        self.parallelism: dict[int, int] = {}
        self.cut = StageCut(graph, self.parallelism, is_batch=settings.is_batch)

    def plan(self) -> JobPlan:
        for node in self.graph:
            self.parallelism[node.id] = self._parallelism_of(node)
            validate_parallelism(node, self.parallelism[node.id], self._max_parallelism_of(node))
            self.cut.add(node)
        edges = self._plan_edges()
        operators = [self._plan_operator(node, edges) for node in self.graph]
        return JobPlan(
            name=self.settings.name,
            stages=self._cut(operators),
            max_parallelism=self.settings.max_parallelism,
            state_backend=self.settings.state_backend,
            is_batch=self.settings.is_batch,
            parameters=self.settings.parameters,
            fresh_instances=self.settings.fresh_instances,
            inline_threshold=self.settings.inline_threshold,
        )

    def _parallelism_of(self, node: Node) -> int:
        """What the node says; else that of what it is chained to, so that records stay where they are."""
        if node.parallelism is not None:
            return node.parallelism
        if node.inputs and not any(edge.partitioning.redistributes for edge in node.inputs):
            return max(self.parallelism[edge.source] for edge in node.inputs)
        return self.settings.parallelism

    def _max_parallelism_of(self, node: Node) -> int:
        return node.max_parallelism or self.settings.max_parallelism

    def _plan_edges(self) -> list[PlannedEdge]:
        found = [(node, edge) for node in self.graph for edge in node.inputs]
        return [self._plan_edge(number, node, edge) for number, (node, edge) in enumerate(found)]

    def _plan_edge(self, number: int, node: Node, edge: Edge) -> PlannedEdge:
        depth = self.cut.depth
        return PlannedEdge(
            id=number,
            source=edge.source,
            target=node.id,
            input_index=edge.input_index,
            side_output=edge.side_output,
            record_type=self.graph.record_type(edge),
            key=edge.key,
            is_exchange=depth[edge.source] != depth[node.id],
            partitioning=self.cut.partitioning(node, edge),
            target_stage=depth[node.id],
            receivers=Receivers(self.parallelism[node.id], self._max_parallelism_of(node)),
        )

    def _plan_operator(self, node: Node, edges: list[PlannedEdge]) -> PlannedOperator:
        return PlannedOperator(
            node=node,
            uid=uid_of(node),
            has_explicit_uid=node.id in self.explicit,
            stage=self.cut.depth[node.id],
            parallelism=self.parallelism[node.id],
            max_parallelism=self._max_parallelism_of(node),
            inputs=tuple(edge for edge in edges if edge.target == node.id),
            outputs=tuple(edge for edge in edges if edge.source == node.id),
        )

    def _cut(self, operators: list[PlannedOperator]) -> tuple[Stage, ...]:
        stages = []
        for index in range(max(self.cut.depth.values()) + 1):
            members = tuple(op for op in operators if op.stage == index)
            stages.append(Stage(index, max(op.parallelism for op in members), members))
        return tuple(stages)


def uid_of(node: Node) -> str:
    """The identity that the node was given at the start of planning."""
    assert node.uid is not None
    return node.uid


def assign_uids(graph: StreamGraph) -> dict[int, str]:
    """The identity of each operator: the user's uid, else a digest of its kind and of what comes before it.

    Raises:
        InvalidProgramError: when two operators have the same uid.
    """
    uids: dict[int, str] = {}
    taken: dict[str, Node] = {}
    for node in graph:
        uid = node.uid or _derived_uid(node, uids, taken)
        if uid in taken:
            raise InvalidProgramError(
                f"two operators have the uid {uid!r}: {taken[uid].name!r} ({taken[uid].call_site}) and {node.name!r} "
                f"({node.call_site}); state is found by uid, so give each its own"
            )
        taken[uid] = node
        uids[node.id] = uid
    return uids


def _derived_uid(node: Node, uids: Mapping[int, str], taken: Mapping[str, Node]) -> str:
    parts = [node.spec.kind, *(f"{uids[edge.source]}/{edge.side_output}/{edge.input_index}" for edge in node.inputs)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    uid, number = digest, 1
    while uid in taken:
        number += 1
        uid = f"{digest}-{number}"
    return uid
