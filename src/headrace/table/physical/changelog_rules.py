"""Rules of changelog inference: the changes that each kind of node takes, needs and emits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from functools import reduce
from typing import Any, Final

from headrace.common.types import RowKind
from headrace.table.connectors.changelog_mode import ChangelogMode


class Modify(Flag):
    """The kinds of changes in a changelog besides insertions, which are always there (Flink's ``ModifyKindSet``)."""

    INSERT = 0
    UPDATE = auto()
    DELETE = auto()
    ALL = UPDATE | DELETE


class UpdateKind(Enum):
    """The row kinds by which updates are sent (Flink's ``UpdateKind``)."""

    NONE = "none"
    ONLY_AFTER = "only after"
    BEFORE_AND_AFTER = "before and after"


@dataclass(frozen=True, slots=True)
class ChangelogRule:
    """The changelog rule of a kind of node.

    Attributes:
        takes: the changes that inputs may have; one value for all of them, or one for each.
        gives: computes the changes that it emits from those of its inputs.
        needs: the update kind that it needs of an input, given the kind wanted of itself and the input's index.
        adapts: whether it can emit either update kind, whatever its inputs have; else it forwards theirs.
        skipped: the node that replaces it where the wanted update kind makes it unnecessary; None where it has to stay.
    """

    gives: Callable[[Any, Sequence[Modify]], Modify]
    takes: Modify | tuple[Modify, ...] = Modify.ALL
    needs: Callable[[Any, int, UpdateKind], UpdateKind | None] = lambda _node, _index, wanted: wanted
    adapts: bool = False
    skipped: Callable[[Any, UpdateKind], Any] = lambda _node, _wanted: None

    def taken_of(self, index: int) -> Modify:
        """The changes that one input may have."""
        return self.takes if isinstance(self.takes, Modify) else self.takes[index]


def forwarded(_: object, inputs: Sequence[Modify]) -> Modify:
    """The changes of all inputs together."""
    return reduce(Modify.__or__, inputs, Modify.INSERT)


def never(*_: object) -> Modify:
    """Insertions only."""
    return Modify.INSERT


def always(*_: object) -> Modify:
    """All changes."""
    return Modify.ALL


def with_before(*_: object) -> UpdateKind:
    """Needs ``UPDATE_BEFORE``."""
    return UpdateKind.BEFORE_AND_AFTER


def without_before(*_: object) -> UpdateKind:
    """Needs ``UPDATE_AFTER`` only."""
    return UpdateKind.ONLY_AFTER


def modify_kinds(node: Any) -> Modify:
    """The changes that a node emits, whatever the node above it takes."""
    found: Modify = node.changelog.gives(node, [modify_kinds(child) for child in node.inputs])
    return found


PASSING: Final = ChangelogRule(forwarded)
"""The rule of nodes that forward rows as they come."""


def modify_of(mode: ChangelogMode) -> Modify:
    """The kinds of changes in a changelog mode."""
    found = Modify.UPDATE if mode.takes_updates else Modify.INSERT
    return found | Modify.DELETE if mode.takes_deletions else found


def mode_of(modify: Modify, updates: UpdateKind) -> ChangelogMode:
    """The row kinds of a changelog."""
    kinds: list[RowKind] = []
    if Modify.UPDATE in modify:
        kinds.append(RowKind.UPDATE_AFTER)
        if updates is UpdateKind.BEFORE_AND_AFTER:
            kinds.append(RowKind.UPDATE_BEFORE)
    if Modify.DELETE in modify:
        kinds.append(RowKind.DELETE)
    return ChangelogMode.of(*kinds)
