"""Which kinds of state an operator may hold; its spec says so, and plans, snapshots and recovery follow from that."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class StateKind(Enum):
    """A kind of state. The values are written into manifests and plans."""

    KEYED = "keyed"
    """State and timers by key. The key group of a key says which subtask has it."""

    LIST = "operator list"
    """Lists of a subtask. After a start at another parallelism each subtask has an equal share of their elements."""

    UNION = "union list"
    """Lists of a subtask. After a start each subtask has the elements of all."""

    BROADCAST = "broadcast"
    """Maps of which every subtask has the same copy."""


StateKinds = frozenset[StateKind]

NO_STATE: Final[StateKinds] = frozenset()
KEYED: Final[StateKinds] = frozenset({StateKind.KEYED})
WITHOUT_KEYS: Final[StateKinds] = frozenset(StateKind) - KEYED


def names_of(kinds: Iterable[StateKind]) -> list[str]:
    """What manifests and plans call some kinds, always in the same order."""
    return [kind.value for kind in StateKind if kind in kinds]
