"""Inference of the row kinds on each edge (Flink's ``FlinkChangelogModeInferenceProgram``).

The first pass is bottom-up: which of insertions, updates and deletions each node emits, and whether the node above
accepts them. The second is top-down: whether updates include ``UPDATE_BEFORE``. A node that does not need them requests
none, and a node that can omit them does; where none can, a ``DropUpdateBefore`` node is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.common.types import RowKind
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.logical.errors import PlanningError, placed
from headrace.table.physical.changelog_rules import PASSING, Modify, UpdateKind, mode_of
from headrace.table.physical.node import PhysicalNode


class ChangelogInference:
    """Infers the row kinds of all nodes of a tree.

    Args:
        drop_before: creates the node that drops ``UPDATE_BEFORE``.
        describe: the text of a node, for error messages.
    """

    def __init__(
        self, drop_before: Callable[[PhysicalNode], PhysicalNode], describe: Callable[[PhysicalNode], str]
    ) -> None:
        self._drop_before = drop_before
        self._describe = describe
        self._modify: dict[int, tuple[PhysicalNode, Modify]] = {}

    def infer(self, root: PhysicalNode, wanted: Iterable[UpdateKind]) -> PhysicalNode:
        """The tree with the mode of each node.

        Args:
            root: the tree.
            wanted: the acceptable update kinds, the preferred one first.

        Raises:
            PlanningError: when a node does not accept the changes of another one.
        """
        self.modify(root)
        for kind in wanted:
            found = self._satisfied(root, kind)
            if found is not None:
                return found
        raise PlanningError(
            f"no plan gives the updates of {self._describe(root)} as they are wanted: a filter or a source below it "
            "leaves out what was before an update"
        )

    def modify(self, node: PhysicalNode) -> Modify:
        """The kinds of changes that a node emits.

        Raises:
            PlanningError: when it, or a node below it, does not accept the changes of another one.
        """
        known = self._modify.get(id(node))
        if known is None:
            rule = node.changelog
            found = [self.check(node, child, rule.taken_of(index)) for index, child in enumerate(node.inputs)]
            known = self._modify[id(node)] = node, rule.gives(node, found)
        return known[1]

    def check(self, node: PhysicalNode, child: PhysicalNode, takes: Modify) -> Modify:
        """The kinds of changes that an input of a node emits.

        Raises:
            PlanningError: when the node does not accept them.
        """
        found = self.modify(child)
        if refused := found & ~takes:
            words = {Modify.UPDATE: "update", Modify.DELETE: "delete", Modify.ALL: "update and delete"}[refused]
            advice = ": write to a table that takes them, as of upsert-kafka" if hasattr(node, "called") else ""
            raise placed(
                f"{self._called(node)} doesn't support consuming {words} changes which is produced by node "
                f"{self._describe(self._maker(child, refused))}{advice}",
                str(getattr(node, "at", "")),
            )
        return found

    def _called(self, node: PhysicalNode) -> str:
        called = getattr(node, "called", None)
        return called if isinstance(called, str) else f"StreamPhysical{type(node).__name__}"

    def _maker(self, node: PhysicalNode, refused: Modify) -> PhysicalNode:
        """The node that produced the changes, and does not only forward them."""
        for child in node.inputs:
            if node.changelog is PASSING and refused & self.modify(child):
                return self._maker(child, refused)
        return node

    def _satisfied(self, node: PhysicalNode, wanted: UpdateKind) -> PhysicalNode | None:
        """The node with the modes of its subtree set; None when it cannot emit the update kind that is wanted."""
        modify, rule = self.modify(node), node.changelog
        wanted = wanted if Modify.UPDATE in modify else UpdateKind.NONE
        without = rule.skipped(node, wanted)
        if without is not None:
            return self._satisfied(without, wanted)
        children: list[PhysicalNode] = []
        for index, child in enumerate(node.inputs):
            found = self._child(node, index, child, wanted)
            if found is None:
                return None
            children.append(found)
        given = wanted
        if not rule.adapts and children and any(child.mode.takes_update_before for child in children):
            given = UpdateKind.BEFORE_AND_AFTER
        if not children:
            return self._leaf(node, modify, wanted)
        return replace(node.with_inputs(children), mode=mode_of(modify, given))

    def _child(self, node: PhysicalNode, index: int, child: PhysicalNode, wanted: UpdateKind) -> PhysicalNode | None:
        needed = node.changelog.needs(node, index, wanted)
        return None if needed is None else self._satisfied(child, needed)

    def _leaf(self, node: PhysicalNode, modify: Modify, wanted: UpdateKind) -> PhysicalNode | None:
        given = leaf_mode(node)
        if Modify.UPDATE not in modify:
            return replace(node, mode=given)
        if given.takes_update_before and wanted is UpdateKind.ONLY_AFTER:
            dropped = self._drop_before(replace(node, mode=given))
            return replace(dropped, mode=given.without(RowKind.UPDATE_BEFORE))
        if not given.takes_update_before and wanted is UpdateKind.BEFORE_AND_AFTER:
            return None
        return replace(node, mode=given)


def leaf_mode(node: PhysicalNode) -> ChangelogMode:
    """The row kinds of a node without inputs."""
    source = getattr(node, "source", None)
    return source.changelog_mode if source is not None else ChangelogMode.INSERT
