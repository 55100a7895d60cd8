"""State without keys at a start of the job: which subtask goes on with which runs of it.

The rules are Flink's. A subtask knows of all that the old ones held from the indexes of their versions, so nobody else
has to read any of it. Runs that a subtask gets as a whole stay where they are; of one that is cut it writes its share
into its next version.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateError, StateMigrationError
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.base import PICKLED
from headrace.common.values import handler_of
from headrace.state.copying import copy_value, elements_of
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from headrace.state.interfaces import ListState, MapState
from headrace.state.keyed.backend import STORE_PREFIX, KeyedStateBackend, errors_named
from headrace.state.keyed.table import Elements, evolve
from headrace.state.keys import KeyCodec
from headrace.state.protocols import StateKind, StateKinds
from headrace.state.runs import Run, RunStore
from headrace.state.runs.layout import KIND, SUBTASK_LIST, TYPES, VALUE
from headrace.state.runs.merge_input import LOW, described, is_ordered
from headrace.state.runs.merging import merge_small_runs
from headrace.state.runs.sections import Section
from headrace.state.state_file import CompactedName, ImageWriter, SharedName
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder

Held = Mapping[int, Sequence[Run]]
"""By old subtask, its runs of one store, oldest first."""
StoredRun = tuple[str, Run]
"""A run, and the store that it is in."""


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


class OperatorListState(ListState[Any]):
    """A list. ``add`` reads nothing; a list that is replaced by an equal one has not changed.

    Args:
        store: its runs.
        descriptor: what the program says about it.

    Raises:
        StateMigrationError: when elements of another type are stored.
    """

    def __init__(self, store: RunStore, descriptor: ListStateDescriptor) -> None:
        self._store = store
        self._elements = Elements(descriptor.element_type, expires=False)
        self._coerce = handler_of(descriptor.element_type).coerce
        self._label = descriptor.label
        self._subject = f"{descriptor.label}: the element"
        self._meta = meta_of_list(descriptor)
        self._added: list[Any] = []
        self._cleared = False
        for run in store.runs:
            evolve(store, run, descriptor)

    def get(self) -> list[Any]:
        stored = [] if self._cleared else self._read()
        return stored + list(map(copy_value, self._added))

    def add(self, value: object) -> None:
        self._added.append(self._stored(value))

    def add_all(self, values: Iterable[object]) -> None:
        self._added.extend(self._all_stored(values, "add_all"))

    def update(self, values: Iterable[object]) -> None:
        self._replace(self._all_stored(values, "update"))

    def clear(self) -> None:
        self._replace([])

    def end_epoch(self) -> None:
        """Writes the elements that were added, or all where older ones are void."""
        added = self._elements.to_columns(self._added)
        if not (self._cleared and self._is_stored(added[VALUE])):
            if self._cleared and self._store.runs:
                self._store.replace(self._store.runs, None, {})
            self._store.append(pa.RecordBatch.from_pydict(added), self._meta)
            merge_small_runs(self._store, now=0)
        self._added, self._cleared = [], False

    def _replace(self, elements: list[Any]) -> None:
        self._added, self._cleared = elements, True

    def _all_stored(self, values: Iterable[object], method: str) -> list[Any]:
        return [self._stored(value) for value in elements_of(values, f"{self._label}: {method}()")]

    def _stored(self, value: object) -> Any:
        if value is None:
            raise InvalidTypeError(f"{self._subject} cannot be None")
        return copy_value(self._coerce(value, self._subject), self._subject)

    def _read(self) -> list[Any]:
        elements: list[Any] = []
        for run in self._store.runs:
            elements += self._elements.from_columns(run.column(VALUE), None)
        return elements

    def _is_stored(self, added: pa.Array) -> bool:
        """Whether the elements are those that the runs hold already, to the last bit."""
        if self._store.rows != len(added):
            return False
        stored = [run.column(VALUE) for run in self._store.runs]
        return not stored or _bits(pa.concat_arrays(stored)).equals(_bits(added))


def _bits(array: pa.Array) -> pa.Buffer:
    """The same for arrays that are the same: 0.0 is not -0.0 here, and NaN is NaN."""
    return pa.record_batch([array], [VALUE]).serialize()


def meta_of_list(descriptor: ListStateDescriptor) -> dict[str, Any]:
    """What the runs of a list say about themselves."""
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

    def list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """The list of a descriptor; after a start at another parallelism, an equal share of the elements of all.

        Raises:
            StateMigrationError: when something else is stored under its name.
            InvalidProgramError: when the program declares the name twice, differently, or with a time to live.
            StateError: when the operator's spec does not declare that kind of state.
        """
        state: ListState = self._state(StateKind.LIST, descriptor, ListStateDescriptor)
        return state

    def union_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """The list of a descriptor; after a start, the elements of all subtasks. Errors as in :meth:`list_state`."""
        state: ListState = self._state(StateKind.UNION, descriptor, ListStateDescriptor)
        return state

    def broadcast_state(self, descriptor: MapStateDescriptor) -> MapState:
        """The map of a descriptor, which has to be changed alike in all subtasks. Errors as in :meth:`list_state`."""
        state: MapState = self._state(StateKind.BROADCAST, descriptor, MapStateDescriptor)
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

    def _state(self, kind: StateKind, descriptor: StateDescriptor, expected: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, expected):
            raise InvalidProgramError(f"expected a {expected.__name__}, got {descriptor!r}")
        self._check(kind, descriptor)
        if descriptor.name in self._declared:
            return self._again(kind, descriptor)
        state = self._new_state(kind, descriptor)
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

    def _new_state(self, kind: StateKind, descriptor: StateDescriptor) -> Any:
        if isinstance(descriptor, MapStateDescriptor):
            return self._maps.state(descriptor)
        assert isinstance(descriptor, ListStateDescriptor)
        state = OperatorListState(self._store(store_name(kind, descriptor.name)), descriptor)
        self._lists.append((descriptor, state))
        return state

    def _store_of_map(self, name: str) -> RunStore:
        return self._store(store_name(StateKind.BROADCAST, name.removeprefix(STORE_PREFIX)))


PART_INSIDE: Final = 2
"""One part in so many of what a version may hold itself is for broadcast state."""


def is_alike(store: str, meta: dict[str, Any]) -> bool:
    """Whether equal entries of a run have equal bytes: those of pickled objects follow from how these are put together.

    Args:
        store: the store of the run.
        meta: what the run says about itself.
    """
    return is_broadcast(store) and PICKLED not in json.dumps(meta.get("types"))


def is_for_all(file: str) -> bool:
    """Whether a file with such runs is one that all subtasks refer to, and not the version of one of them."""
    return SharedName.parse(file) is not None or CompactedName.parse(file) is not None


@dataclass(frozen=True)
class SharedRuns:
    """How the subtasks of a stage put broadcast state that is new in an epoch into their versions.

    Attributes:
        epoch: the epoch.
        generation: that of the job manager.
        stage: the stage.
        is_first: whether this is the first subtask, which writes what is for all.
        most_inside: up to how many bytes of an operator stay inside the version.
        storage: where state files are.
        loader: gives what loads a file.
    """

    epoch: int
    generation: int
    stage: int
    is_first: bool
    most_inside: int
    storage: Folder
    loader: Callable[[str], Callable[[], MappedFile]]

    def place(self, uid: str, runs: Sequence[StoredRun]) -> str:
        """Puts the runs that are in no file for all subtasks into one, unless they are small.

        Args:
            uid: the operator.
            runs: all of its runs that are alike, in the order of their stores.

        Returns:
            A digest of what all of them hold, wherever they lie.
        """
        loose = [run.section for _, run in runs if not is_for_all(run.section.file)]
        writer = ImageWriter()
        offsets = [writer.add(section) for section in loose]
        if loose and writer.size > self.most_inside:
            self._write(uid, writer, loose, offsets)
        else:
            for section in loose:
                section.taken_along()
        return _digest_of(runs)

    def _write(self, uid: str, writer: ImageWriter, sections: Sequence[Section], offsets: Sequence[int]) -> None:
        """Has the first subtask write a file; the others refer to it by the digest of what they would have written."""
        described = [section.describe(offset) for section, offset in zip(sections, offsets, strict=True)]
        chunks = writer.finish({"shared": uid, "stage": self.stage, "runs": described})
        owner = SharedName.owner_of(uid)
        name = str(SharedName(self.epoch, self.generation, self.stage, owner, writer.digest))
        if self.is_first:
            self.storage.write(name, chunks)
        for section, offset in zip(sections, offsets, strict=True):
            section.moved_to(name, offset, self.loader(name))


def _digest_of(runs: Sequence[StoredRun]) -> str:
    """A digest of what runs hold, all of which have been encoded before."""
    told = [{**run.section.describe(0), "store": store, "meta": run.meta} for store, run in runs]
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()
