"""``OperatorStateBackend`` and its lists: the state of a subtask that belongs to no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateError, StateMigrationError
from headrace.common.typeinfo import Types
from headrace.common.values import handler_of
from headrace.state.arguments import elements_of
from headrace.state.copying import copy_value
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor
from headrace.state.interfaces import ListState
from headrace.state.keyed.backend import STORE_PREFIX, KeyedStateBackend, errors_named
from headrace.state.keyed.table import Elements, evolve
from headrace.state.keys import KeyCodec
from headrace.state.kinds import StateKind
from headrace.state.operator.redistribution import store_name
from headrace.state.runs.layout import KIND, SUBTASK_LIST, TYPES, VALUE
from headrace.state.runs.merging import merge_small_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.state.descriptors import StateDescriptor
    from headrace.state.interfaces import MapState
    from headrace.state.kinds import StateKinds
    from headrace.state.runs import RunStore


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

    def add(self, value: Any) -> None:
        self._added.append(self._stored(value))

    def add_all(self, values: Iterable[Any]) -> None:
        self._added.extend(self._all_stored(values, "add_all"))

    def update(self, values: Iterable[Any]) -> None:
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

    def _all_stored(self, values: Iterable[Any], method: str) -> list[Any]:
        return [self._stored(value) for value in elements_of(values, f"{self._label}: {method}()")]

    def _stored(self, value: Any) -> Any:
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

    def list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """The list of a descriptor; after a start at another parallelism, an equal share of the elements of all.

        Raises:
            StateMigrationError: when something else is stored under its name.
            InvalidProgramError: when the program declares the name twice, differently, or with a time to live.
            StateError: when the operator's spec does not declare that kind of state.
        """
        state: ListState[Any] = self._state(StateKind.LIST, descriptor, ListStateDescriptor)
        return state

    def union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """The list of a descriptor; after a start, the elements of all subtasks. Errors as in :meth:`list_state`."""
        state: ListState[Any] = self._state(StateKind.UNION, descriptor, ListStateDescriptor)
        return state

    def broadcast_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """The map of a descriptor, which has to be changed alike in all subtasks. Errors as in :meth:`list_state`."""
        state: MapState[Any, Any] = self._state(StateKind.BROADCAST, descriptor, MapStateDescriptor)
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
