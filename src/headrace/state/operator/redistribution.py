"""State without keys at a start of the job: which subtask goes on with which runs of it.

The rules are Flink's. A subtask knows of all that the old ones held from the indexes of their versions, so nobody else
has to read any of it. Runs that a subtask gets as a whole stay where they are; of one that is cut it writes its share
into its next version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.state.kinds import StateKind
from headrace.state.runs import Run
from headrace.state.runs.ordered import LOW, described, is_ordered
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Held = Mapping[int, Sequence[Run]]
    """By old subtask, its runs of one store, oldest first."""

P = TypeVar("P")

_PREFIXES: Final = {StateKind.LIST: "list/", StateKind.UNION: "union/", StateKind.BROADCAST: "broadcast/"}


def store_name(kind: StateKind, name: str) -> str:
    """What the store of a state without keys is called."""
    return _PREFIXES[kind] + name


def kind_of_store(store: str) -> StateKind | None:
    """The kind of state without keys that is in a store; None for one that is kept by key."""
    return next((kind for kind, prefix in _PREFIXES.items() if store.startswith(prefix)), None)


def is_broadcast(store: str) -> bool:
    """Whether what is in a store all subtasks of the operator have alike."""
    return kind_of_store(store) is StateKind.BROADCAST


@dataclass(frozen=True, slots=True)
class Redistribution:
    """What a start means for one subtask of an operator.

    Attributes:
        before: how many subtasks there were.
        now: how many there are.
        subtask: which of them it is.
        shares: whether all of them have one broadcast state: they all go on with the runs of the same old subtask.
    """

    before: int
    now: int
    subtask: int
    shares: bool = False

    def subtasks_of(self, kind: StateKind) -> range:
        """The old subtasks whose state of a kind without keys the new one has to know."""
        if kind is StateKind.UNION or (kind is StateKind.LIST and self.before != self.now):
            return range(self.before)
        number = 0 if self.shares and kind is StateKind.BROADCAST else self.subtask % self.before
        return range(number, number + 1)

    def runs(self, stores: Mapping[str, Held]) -> dict[str, list[Run]]:
        """The runs that the subtask goes on with, by store.

        Args:
            stores: what the old subtasks held; all stores of the operator's state without keys.
        """
        return self.deal(stores, _rows, _part)

    def deal(
        self, stores: Mapping[str, Mapping[int, Sequence[P]]], size: Callable[[P], int], cut: Callable[[P, int, int], P]
    ) -> dict[str, list[P]]:
        """What the subtask goes on with, by store, where a store is any sequence of pieces.

        Args:
            stores: by old subtask, the pieces that it held; all stores of the operator's state without keys.
            size: how many elements a piece has.
            cut: gives the elements of a piece from the first up to, but without, the second number.
        """
        first = 0  # who gets one element more goes round, so that many short lists do not end up in one place
        dealt: dict[str, list[P]] = {}
        for store, held in sorted(stores.items()):
            pieces = [piece for subtask in self._sources(store) for piece in held.get(subtask, ())]
            if self._is_cut(store):
                total = sum(map(size, pieces))
                pieces = list(_between(pieces, *self._share(total, first), size, cut))
                first = (first + total) % self.now
            dealt[store] = pieces
        return dealt

    def _sources(self, store: str) -> range:
        kind = kind_of_store(store)
        assert kind is not None, f"{store} is kept by key"
        return self.subtasks_of(kind)

    def _is_cut(self, store: str) -> bool:
        return kind_of_store(store) is StateKind.LIST and self.before != self.now

    def _share(self, total: int, first: int) -> tuple[int, int]:
        """From which element to which, where consecutive shares go to the subtasks from ``first`` on, and round."""
        size, longer = divmod(total, self.now)
        place = (self.subtask - first) % self.now
        start = place * size + min(place, longer)
        return start, start + size + (place < longer)


def _between(
    pieces: Sequence[P], start: int, stop: int, size: Callable[[P], int], cut: Callable[[P, int, int], P]
) -> Iterator[P]:
    """The elements from ``start`` to ``stop`` of pieces that follow one another."""
    offset = 0
    for piece in pieces:
        total = size(piece)
        first, last = max(0, start - offset), min(total, stop - offset)
        if first < last:
            yield piece if last - first == total else cut(piece, first, last)
        offset += total


def _rows(run: Run) -> int:
    """How many rows are dealt out: those of an ordered run that are over are nobody's."""
    return run.rows - _first_row(run)


def _part(run: Run, first: int, last: int) -> Run:
    start = _first_row(run)
    rows = run.section.slice(start + first, start + last)
    meta = described(run.meta, rows) if is_ordered(run.meta) else run.meta
    return Run(Section(rows), meta, run.hashes, origin=run.origin)


def _first_row(run: Run) -> int:
    row: int = run.meta.get(LOW, 0)
    return row
