"""Physical nodes that change the row kinds of a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from headrace.common.configuration import Configuration
from headrace.common.types import RowKind
from headrace.graph.changelog_specs import ChangelogNormalizeSpec
from headrace.graph.row_specs import KeepRowKindsSpec
from headrace.table.logical.errors import SinkConflictError, refuses_depth
from headrace.table.logical.relations import LogicalWatermarkAssigner, Relation, Scan
from headrace.table.logical.scalars import Scalar
from headrace.table.options import MINI_BATCH, MINI_BATCH_SIZE, REQUIRE_ON_CONFLICT, UPSERT_MATERIALIZE
from headrace.table.physical.basic import Calc, Exchange, filtered
from headrace.table.physical.changelog import ChangelogInference
from headrace.table.physical.changelog_rules import (
    ChangelogRule,
    Modify,
    UpdateKind,
    always,
    mode_of,
    modify_of,
    without_before,
)
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted, table_source
from headrace.table.physical.keys import Keys, one_key
from headrace.table.physical.node import Edges, PassingNode, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.sinks import Sink
from headrace.table.physical.translation import GraphBuilder, by_key, compiled
from headrace.table.rules.normalize import Normalize


@dataclass(frozen=True)
class DropUpdateBefore(PassingNode):
    """Drops ``UPDATE_BEFORE`` rows."""

    name: ClassVar[str] = "DropUpdateBefore"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        kinds = tuple(kind for kind in RowKind if kind is not RowKind.UPDATE_BEFORE)
        return builder.add(KeepRowKindsSpec(kinds), self.name, *inputs)


@dataclass(frozen=True)
class ChangelogNormalize(PassingNode):
    """Turns upserts into a changelog with ``UPDATE_BEFORE`` rows.

    Attributes:
        key: the columns of the key.
        condition: the filter on rows that was pushed down into it.
        has_duplicates: whether changes may come twice, so that it is needed for upserts as well.
    """

    name: ClassVar[str] = "ChangelogNormalize"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        always, needs=without_before, adapts=True, skipped=lambda node, wanted: node.without_need(wanted)
    )
    key: tuple[int, ...]
    condition: Scalar | None = None
    has_duplicates: bool = False

    def without_need(self, wanted: UpdateKind) -> PhysicalNode | None:
        """The node that replaces it if only upserts are needed; None if it has to stay."""
        if wanted is not UpdateKind.ONLY_AFTER or self.condition is not None or self.has_duplicates:
            return None
        return self.input.input if isinstance(self.input, Exchange) else self.input

    @property
    def upsert_keys(self) -> Keys:
        return one_key(self.key)

    def terms(self, text: ScalarText) -> Terms:
        yield "key", names_text([self.schema.names[index] for index in self.key])
        if self.condition is not None:
            yield "condition", text(self.condition, self.schema.names)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        condition = None if self.condition is None else compiled(self.condition, self.schema, builder)
        settings = builder.settings
        spec = ChangelogNormalizeSpec(
            update_before=self.mode.takes_update_before,
            condition=condition,
            ttl=builder.state_ttl,
            mini_batch=(settings.get(MINI_BATCH_SIZE), self.key) if settings.get(MINI_BATCH) else None,
        )
        return builder.add(spec, self.name, by_key(inputs[0], self.schema, self.key))


@conversion_rule(Normalize)
def _normalize(node: Normalize, context: ConversionContext) -> PhysicalNode:
    source = converted(node.input, context)
    if context.is_batch:  # batch sources give final rows, not upserts
        return source if node.condition is None else filtered(source, node.condition)
    scan = next(each for each in node.input.walk() if isinstance(each, Scan))
    has_duplicates = context.has_duplicates(table_source(scan, context).changelog_mode)
    return ChangelogNormalize(Exchange(source, node.key), node.key, node.condition, has_duplicates)


@refuses_depth
def without_renames(node: PhysicalNode) -> PhysicalNode:
    """The plan as it is shown: nodes that only rename what is normalized are not there, but names above them are."""
    made = node.with_inputs([without_renames(child) for child in node.inputs])
    if isinstance(made, ChangelogNormalize) and isinstance(calc := made.input.inputs[0], Calc):
        return made.with_inputs([made.input.with_inputs([replace(calc, is_pushed=True)])])
    if not isinstance(node, Calc) or not isinstance(made, Calc):
        return made
    if made.only_renames and isinstance(made.input, ChangelogNormalize):
        return made.input
    is_same = made.input.schema.names == node.input.schema.names
    return made if is_same else replace(made, given=node.input.schema.names)


def infer_sink(inference: ChangelogInference, root: Sink, settings: Configuration, query: Relation) -> PhysicalNode:
    """Infer the changelog of a statement that writes into a table.

    Args:
        inference: infers the row kinds of nodes.
        root: the plan.
        settings: the configuration of the session.
        query: the query that is written.

    Raises:
        PlanningError: when the table does not accept the changes of the query.
        SinkConflictError: when rows may conflict on the key, and ``ON CONFLICT`` is missing.
    """
    given = inference.modify(root.input)
    taken = root.sink.changelog_mode(mode_of(given, UpdateKind.BEFORE_AND_AFTER))
    inference.check(root, root.input, modify_of(taken))
    is_upsert = bool(root.target.primary_key) and taken.takes_updates and not taken.takes_update_before
    if root.target.on_conflict is not None and not is_upsert:
        why = "it has no primary key" if not root.target.primary_key else "it takes what was before an update"
        raise SinkConflictError(
            f"ON CONFLICT is for tables that take upserts, and {root.called} takes none: {why}. Leave it out."
        )
    if root.target.on_conflict in ("NOTHING", "ERROR"):
        _check_watermarks(query, root.target.on_conflict)
    if is_upsert and _materializes(root, given, settings):
        key = _unique_key(root)
        made = replace(root, materializes=True, unique_key=key)
        return replace(made, input=inference.infer(root.input, [UpdateKind.BEFORE_AND_AFTER]))
    kinds = [UpdateKind.BEFORE_AND_AFTER]
    if not taken.takes_update_before and (not root.target.primary_key or _has_same_key(root)):
        kinds.insert(0, UpdateKind.ONLY_AFTER)
    return replace(root, input=inference.infer(root.input, kinds))


def _has_same_key(root: Sink) -> bool:
    return frozenset(root.target.primary_key) in root.input.upsert_keys


def _unique_key(root: Sink) -> tuple[int, ...]:
    keys = sorted(root.input.upsert_keys, key=lambda key: (len(key), sorted(key)))
    return tuple(sorted(keys[0])) if keys else ()


def _materializes(root: Sink, given: Modify, settings: Configuration) -> bool:
    """Return whether the sink needs an upsert materializer, which stores the rows of each key of the table.

    Raises:
        SinkConflictError: when rows may conflict on the key, and ``ON CONFLICT`` is missing.
    """
    wanted = settings.get(UPSERT_MATERIALIZE)
    if wanted == "NONE":
        return False
    key, conflict = set(root.target.primary_key), root.target.on_conflict
    if any(each <= key for each in root.input.upsert_keys):
        return wanted == "FORCE"
    if conflict is None and settings.get(REQUIRE_ON_CONFLICT):
        names = [root.target.columns.names[index] for index in root.target.primary_key]
        raise SinkConflictError(
            f"the rows of the query have another upsert key than {root.called}, whose primary key is "
            f"({', '.join(names)}): several of them may fall on one key. Say what then: ON CONFLICT DO DEDUPLICATE "
            "(the last one counts, and all are remembered), ON CONFLICT DO ERROR, or ON CONFLICT DO NOTHING (the first "
            "one counts)."
        )
    return conflict != "DEDUPLICATE" or given is not Modify.INSERT or wanted == "FORCE"


def _check_watermarks(query: Relation, conflict: str) -> None:
    """Refuse sources without watermarks, which are needed to find the first row of a key."""
    missing = [".".join(scan.path) for scan in _without_watermarks(query)]
    if missing:
        raise SinkConflictError(
            f"ON CONFLICT DO {conflict} needs watermarks of all tables that are read, and {', '.join(missing)} has "
            "none: add WATERMARK FOR to its definition"
        )


def _without_watermarks(relation: Relation) -> list[Scan]:
    if isinstance(relation, LogicalWatermarkAssigner):
        return []
    if isinstance(relation, Scan):
        return [relation]
    return [scan for child in relation.inputs for scan in _without_watermarks(child)]
