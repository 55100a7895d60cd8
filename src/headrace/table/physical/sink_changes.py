"""Changes that a table accepts, and the treatment of rows with an equal key of the table."""

from __future__ import annotations

from dataclasses import replace

from headrace.common.configuration import Configuration
from headrace.table.logical.errors import SinkConflictError
from headrace.table.logical.relations import Relation, Scan, WatermarkAssigner
from headrace.table.options import REQUIRE_ON_CONFLICT, UPSERT_MATERIALIZE
from headrace.table.physical.changelog import ChangelogInference
from headrace.table.physical.changelog_rules import Modify, UpdateKind, mode_of, modify_of
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.sinks import Sink


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
    """Refuse sources without watermarks, which are needed to know the first row of a key."""
    missing = [".".join(scan.path) for scan in _without_watermarks(query)]
    if missing:
        raise SinkConflictError(
            f"ON CONFLICT DO {conflict} needs watermarks of all tables that are read, and {', '.join(missing)} has "
            "none: add WATERMARK FOR to its definition"
        )


def _without_watermarks(relation: Relation) -> list[Scan]:
    if isinstance(relation, WatermarkAssigner):
        return []
    if isinstance(relation, Scan):
        return [relation]
    return [scan for child in relation.inputs for scan in _without_watermarks(child)]
