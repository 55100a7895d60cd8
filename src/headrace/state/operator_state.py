"""State without keys at a start of the job: which subtask goes on with which runs of it.

The rules are Flink's. A subtask knows of all that the old ones held from the indexes of their versions, so no other
process has to read any of it. Runs that a subtask gets as a whole stay where they are; of one that is cut it writes its
share into its next version.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from headrace.common.errors import InvalidProgramError, StateError, StateMigrationError
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.base import PICKLED
from headrace.state.copying import copy_value
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from headrace.state.interfaces import ListState, MapState
from headrace.state.keyed.backend import KeyedStateBackend, errors_named
from headrace.state.keyed.table import Elements, evolve
from headrace.state.keyed.value_and_list_state import BaseListState
from headrace.state.keys import KeyCodec
from headrace.state.protocols import STORE_PREFIX, StateKind, StateKinds, is_broadcast, kind_of_store, store_name
from headrace.state.runs import Run, RunStore
from headrace.state.runs.layout import KIND, SUBTASK_LIST, TYPES, VALUE
from headrace.state.runs.merge_input import LOW, described, is_ordered
from headrace.state.runs.merging import merge_small_runs
from headrace.state.runs.sections import Section
from headrace.state.state_file import CompactedName, SharedName

Held = Mapping[int, Sequence[Run]]

"""By old subtask, its runs of one store, oldest first."""

StoredRun = tuple[str, Run]

"""A run, and the store that it is in."""


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Redistribution:
    """The state of one subtask of an operator at a start.

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
        """The restored state of the subtask, by store, where a store is any sequence of pieces.

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
        if kind is None:
            raise StateError(f"{store!r} is kept by key, and not dealt out")
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
    """Return how many rows are dealt out: those of an ordered run that are over belong to no subtask."""
    return run.rows - _first_row(run)


def _part(run: Run, first: int, last: int) -> Run:
    start = _first_row(run)
    rows = run.section.slice(start + first, start + last)
    meta = described(run.meta, rows) if is_ordered(run.meta) else run.meta
    return Run(Section(rows), meta, run.hashes, origin=run.origin)


def _first_row(run: Run) -> int:
    row: int = run.meta.get(LOW, 0)
    return row


class OperatorListState(BaseListState):
    """A list. ``add`` reads nothing; a list that is replaced by an equal one has not changed.

    Args:
        store: its runs.
        descriptor: what the program says about it.

    Raises:
        StateMigrationError: when elements of another type are stored.
    """

    def __init__(self, store: RunStore, descriptor: ListStateDescriptor) -> None:
        super().__init__(descriptor)
        self._store = store
        self._elements = Elements(descriptor.element_type, expires=False)
        self._meta = meta_of_list(descriptor)
        self._new: list[Any] = []
        self._cleared = False
        for run in store.runs:
            evolve(store, run, descriptor)

    def get(self) -> list[Any]:
        stored = [] if self._cleared else self._read()
        return stored + list(map(copy_value, self._new))

    def end_epoch(self) -> None:
        """Writes the elements that were added, or all where older ones are void."""
        added = self._elements.to_columns(self._new)
        if not (self._cleared and self._is_stored(added[VALUE])):
            if self._cleared and self._store.runs:
                self._store.replace(self._store.runs, None, {})
            self._store.append(pa.RecordBatch.from_pydict(added), self._meta)
            merge_small_runs(self._store, now=0)
        self._new, self._cleared = [], False

    def _added(self) -> list[Any]:
        return self._new

    def _replace(self, elements: list[Any]) -> None:
        self._new, self._cleared = elements, True

    def _read(self) -> list[Any]:
        elements: list[Any] = []
        for run in self._store.runs:
            elements += self._elements.from_columns(run.column(VALUE), None)
        return elements

    def _is_stored(self, added: pa.Array) -> bool:
        """Return whether the elements are those that the runs hold already, to the last bit."""
        if self._store.rows != len(added):
            return False
        stored = [run.column(VALUE) for run in self._store.runs]
        return not stored or _bits(pa.concat_arrays(stored)).equals(_bits(added))


def _bits(array: pa.Array) -> pa.Buffer:
    """The same for arrays that are the same: 0.0 is not -0.0 here, and NaN is NaN."""
    return pa.record_batch([array], [VALUE]).serialize()


def meta_of_list(descriptor: ListStateDescriptor) -> dict[str, Any]:
    """The description of a list's runs."""
    return {KIND: SUBTASK_LIST, TYPES: descriptor.stored_types()}


_THE_KEY: Final = 0
"""Broadcast maps are kept as those of one key."""

_WITHOUT_KEYS: Final = (StateKind.LIST, StateKind.UNION, StateKind.BROADCAST)


class OperatorStateBackend:
    """Lists and broadcast maps of one subtask of an operator, to be used from ``open`` on until an epoch ends.

    In every epoch a subtask finds what it had at the end of the epoch before. Only in the first one after a start of
    the job (:attr:`is_restored`) it finds what was dealt out to it, as its kind of state says. So an instance that is
    made anew in between, in another process, goes on with what the subtask had.

    Args:
        uid: the operator.
        kinds: the kinds of state that its spec declares.
        store: gives the runs of a store by its name.
        is_restored: whether the job has just gone on from a checkpoint that knows the operator.
    """

    def __init__(self, uid: str, kinds: StateKinds, store: Callable[[str], RunStore], *, is_restored: bool) -> None:
        self.is_restored = is_restored
        self._uid = uid
        self._kinds = kinds
        self._store = store
        self._declared: dict[str, tuple[StateKind, StateDescriptor, Any]] = {}
        self._lists: list[tuple[ListStateDescriptor, OperatorListState]] = []
        self._maps = KeyedStateBackend(KeyCodec.for_type(Types.INT()), self._store_of_map)
        self._use_the_key()

    def list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """The list of a descriptor; after a start at another parallelism, an equal share of the elements of all.

        Raises:
            StateMigrationError: when something else is stored under its name.
            InvalidProgramError: when the program declares the name twice, differently, or with a time to live.
            StateError: when the operator's spec does not declare that kind of state.
        """
        return self._list_state(StateKind.LIST, descriptor)

    def union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """The list of a descriptor; after a start, the elements of all subtasks. Errors as in :meth:`list_state`."""
        return self._list_state(StateKind.UNION, descriptor)

    def broadcast_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """The map of a descriptor, which has to be changed alike in all subtasks. Errors as in :meth:`list_state`."""
        state: MapState[Any, Any] = self._state(
            StateKind.BROADCAST, descriptor, MapStateDescriptor, lambda: self._maps.state(descriptor)
        )
        return state

    def list_log(self, name: str) -> RunStore:
        """A log of tables for the operator's own use; after a start at another parallelism, an equal share of the rows.

        Raises:
            StateError: when the operator's spec does not declare lists.
        """
        self._check_kind(StateKind.LIST)
        return self._store(store_name(StateKind.LIST, name))

    def end_epoch(self) -> None:
        """Writes what has changed into runs.

        Raises:
            InvalidTypeError: when the key of an entry cannot be one, or an object not be pickled; it names the state.
        """
        for descriptor, state in self._lists:
            with errors_named(descriptor):
                state.end_epoch()
        self._maps.end_epoch()
        self._maps.forget_keys()
        self._use_the_key()
        self.is_restored = False

    def _use_the_key(self) -> None:
        (self._maps.current,) = self._maps.bind(self._maps.codec.encode([_THE_KEY]))

    def _list_state(self, kind: StateKind, descriptor: ListStateDescriptor) -> ListState[Any]:
        def new_state() -> OperatorListState:
            state = OperatorListState(self._store(store_name(kind, descriptor.name)), descriptor)
            self._lists.append((descriptor, state))
            return state

        state: ListState[Any] = self._state(kind, descriptor, ListStateDescriptor, new_state)
        return state

    def _state(
        self, kind: StateKind, descriptor: Any, expected: type[StateDescriptor], new_state: Callable[[], Any]
    ) -> Any:
        if not isinstance(descriptor, expected):
            raise InvalidProgramError(f"expected a {expected.__name__}, got {descriptor!r}")
        self._check(kind, descriptor)
        if descriptor.name in self._declared:
            return self._again(kind, descriptor)
        state = new_state()
        self._declared[descriptor.name] = (kind, descriptor, state)
        return state

    def _check_kind(self, kind: StateKind) -> None:
        if kind not in self._kinds:
            raise StateError(f"operator {self._uid!r}: its spec does not declare {kind.value} state, so it has none")

    def _check(self, kind: StateKind, descriptor: StateDescriptor) -> None:
        self._check_kind(kind)
        if descriptor.ttl is not None:
            raise InvalidProgramError(
                f"operator {self._uid!r}: {kind.value} state has no time to live, so {descriptor.name!r} must not "
                "enable one"
            )
        for other in _WITHOUT_KEYS:
            if other is not kind and self._store(store_name(other, descriptor.name)).runs:
                raise StateMigrationError(
                    f"the state {descriptor.name!r} was stored as {other.value} state and is declared as {kind.value} "
                    "state; give it another name, or restore the old declaration"
                )

    def _again(self, kind: StateKind, descriptor: StateDescriptor) -> Any:
        declared, known, state = self._declared[descriptor.name]
        if (declared, known.stored_types()) != (kind, descriptor.stored_types()):
            raise InvalidProgramError(
                f"operator {self._uid!r} declares the state {descriptor.name!r} twice: as {declared.value} state, "
                f"{known!r}, and as {kind.value} state, {descriptor!r}"
            )
        return state

    def _store_of_map(self, name: str) -> RunStore:
        return self._store(store_name(StateKind.BROADCAST, name.removeprefix(STORE_PREFIX)))


PART_INSIDE: Final = 2
"""One part in so many of what a version may hold itself is for broadcast state."""


def is_alike(store: str, meta: dict[str, Any]) -> bool:
    """Return whether equal entries of a run have equal bytes, which pickled objects need not have.

    Args:
        store: the store of the run.
        meta: what the run says about itself.
    """
    return is_broadcast(store) and PICKLED not in json.dumps(meta.get("types"))


def is_for_all(file: str) -> bool:
    """Return whether a file with such runs is one that all subtasks refer to, and not the version of one of them."""
    return SharedName.parse(file) is not None or CompactedName.parse(file) is not None


def digest_of_runs(runs: Sequence[StoredRun]) -> str:
    """A digest of what runs hold, all of which have been encoded before."""
    described = [{**run.section.describe(0), "store": store, "meta": run.meta} for store, run in runs]
    return hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=8).hexdigest()
