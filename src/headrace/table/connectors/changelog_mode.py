"""``ChangelogMode``: the row kinds of a source or a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from headrace.common.types import RowKind


@dataclass(frozen=True, slots=True)
class ChangelogMode:
    """A set of row kinds; insertions are always among them.

    Attributes:
        kinds: the kinds.

    Examples:
        >>> from headrace.table.connectors import ChangelogMode
        >>> ChangelogMode.upsert(), ChangelogMode.parse("I,D").takes_updates
        (ChangelogMode('I,UA,D'), False)
    """

    kinds: frozenset[RowKind]

    INSERT: ClassVar[ChangelogMode]
    UPSERT: ClassVar[ChangelogMode]
    ALL: ClassVar[ChangelogMode]

    @classmethod
    def of(cls, *kinds: RowKind) -> ChangelogMode:
        """The mode of some kinds, and insertions."""
        return cls(frozenset({RowKind.INSERT, *kinds}))

    @classmethod
    def parse(cls, text: str) -> ChangelogMode:
        """The mode of a text such as ``I,UA,D``.

        Raises:
            KeyError: when a kind is unknown.
        """
        return cls.of(*(_KINDS[part.strip()] for part in text.split(",")))

    @classmethod
    def insert_only(cls) -> ChangelogMode:
        """Insertions only."""
        return cls.INSERT

    @classmethod
    def upsert(cls) -> ChangelogMode:
        """Insertions, ``UPDATE_AFTER`` and deletions."""
        return cls.UPSERT

    @classmethod
    def all(cls) -> ChangelogMode:
        """All kinds."""
        return cls.ALL

    @property
    def is_insert_only(self) -> bool:
        """Return whether there are only insertions."""
        return len(self.kinds) == 1

    @property
    def takes_updates(self) -> bool:
        """Return whether there may be updates."""
        return RowKind.UPDATE_AFTER in self.kinds

    @property
    def takes_update_before(self) -> bool:
        """Return whether updates include ``UPDATE_BEFORE``."""
        return RowKind.UPDATE_BEFORE in self.kinds

    @property
    def takes_deletions(self) -> bool:
        """Return whether there may be deletions."""
        return RowKind.DELETE in self.kinds

    def union(self, other: ChangelogMode) -> ChangelogMode:
        """The mode of both."""
        return ChangelogMode(self.kinds | other.kinds)

    def without(self, *kinds: RowKind) -> ChangelogMode:
        """The mode of all other kinds."""
        return ChangelogMode(self.kinds - set(kinds))

    def __str__(self) -> str:
        return ",".join(name for name, kind in _KINDS.items() if kind in self.kinds) or "NONE"

    def __repr__(self) -> str:
        return f"ChangelogMode('{self}')"


_KINDS: Final = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}

ChangelogMode.INSERT = ChangelogMode.of()
ChangelogMode.UPSERT = ChangelogMode.of(RowKind.UPDATE_AFTER, RowKind.DELETE)
ChangelogMode.ALL = ChangelogMode.of(*RowKind)
