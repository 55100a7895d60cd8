"""``KeyedStateBackend``: the states of one operator, by key and by key and namespace."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import Json
from headrace.state import descriptors as d
from headrace.state.keyed.map_state import ColumnarMapState
from headrace.state.keyed.namespaces import KeyScope, Namespace, NamespaceScope, StateScope, decoded_pair, namespaced
from headrace.state.keyed.table import StateTable
from headrace.state.keyed.value_and_list_state import (
    ColumnarListState,
    FoldedAggregatingState,
    FoldedReducingState,
    value_state,
)
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.codecs import NO_KEY, KeyEntry
from headrace.state.protocols import NAMESPACED_PREFIX, STORE_PREFIX
from headrace.state.runs import RunStore
from headrace.state.runs.layout import KEY

_KINDS: Final[dict[str, Callable[[StateScope, StateTable, Any], Any]]] = {
    "value": value_state,
    "list": ColumnarListState,
    "map": ColumnarMapState,
    "reducing": FoldedReducingState,
    "aggregating": FoldedAggregatingState,
}
"""The functions that make the state of a descriptor, by the descriptor's ``kind``."""


class _States:
    """States by name that are kept by the same keys.

    Args:
        scope: which is the current one.
        keys: how keys are stored, as JSON.
        store: gives the runs of a state by its name.
        times: says what time it is.
    """

    def __init__(self, scope: StateScope, keys: Json, store: Callable[[str], RunStore], times: KeyScope) -> None:
        self._scope = scope
        self._keys = keys
        self._store = store
        self._times = times
        self._declared: dict[str, tuple[d.StateDescriptor, Any]] = {}

    def of(self, descriptor: d.StateDescriptor) -> Any:
        known = self._declared.get(descriptor.name)
        if known is not None:
            _check_same(known[0], descriptor)
            return known[1]
        table = StateTable(self._store(descriptor.name), descriptor, self._keys, self._times)
        with errors_named(descriptor):
            state = _KINDS[descriptor.kind](self._scope, table, descriptor)
        self._declared[descriptor.name] = (descriptor, state)
        return state

    def forget_keys(self) -> None:
        for _, state in self._declared.values():
            state.forget_keys()

    def end_epoch(self) -> None:
        for descriptor, state in self._declared.values():
            with errors_named(descriptor):
                state.end_epoch()


@contextmanager
def errors_named(descriptor: d.StateDescriptor) -> Iterator[None]:
    """Puts the state in front of errors about its types and values."""
    try:
        yield
    except InvalidTypeError as error:
        raise InvalidTypeError(f"{descriptor.label}: {error}") from error


class KeyedStateBackend(KeyScope):
    """The keyed state of one operator in one task.

    Args:
        codec: how keys are stored.
        store: gives runs by the name of their store.
    """

    def __init__(self, codec: KeyCodec, store: Callable[[str], RunStore]) -> None:
        super().__init__(codec)
        self._store = store
        self._pairs = NamespaceScope(self)
        self._of_keys = _States(self, codec.to_json(), lambda name: store(STORE_PREFIX + name), self)
        self._of_pairs = _States(self._pairs, namespaced(codec), lambda name: store(NAMESPACED_PREFIX + name), self)

    def state(self, descriptor: d.StateDescriptor) -> Any:
        """The state of a descriptor, for the current key.

        Raises:
            StateMigrationError: when something else is stored under its name.
            InvalidProgramError: when the program declares the name twice, differently.
        """
        return self._of_keys.of(descriptor)

    def namespaced_state(self, descriptor: d.StateDescriptor) -> Any:
        """The state of a descriptor, for the current key and namespace; errors as in :meth:`state`.

        A state with the same name that is kept by the key alone is another one.
        """
        return self._of_pairs.of(descriptor)

    def keys_of(self, descriptor: d.StateDescriptor) -> list[KeyEntry]:
        """The keys that may have something in a state, those of this epoch among them, in the order of hash and key.

        Whether one has, the state tells.
        """
        self.state(descriptor)  # which checks what is stored
        for run in self._store(STORE_PREFIX + descriptor.name).runs:
            self.bind(KeyColumn.of(run.column(KEY)))
        return sorted(self.entries.all, key=lambda entry: (entry.hash, entry.raw))

    def keys_and_namespaces(self, descriptor: d.StateDescriptor) -> list[tuple[KeyEntry, Namespace]]:
        """The keys and namespaces of which a state was stored when the epoch began, each pair once.

        Whether it still holds something of a pair, the state tells.
        """
        self.namespaced_state(descriptor)  # which checks what is stored
        stored = [run.column(KEY).to_pylist() for run in self._store(NAMESPACED_PREFIX + descriptor.name).runs]
        pairs = [decoded_pair(data) for data in dict.fromkeys(chain.from_iterable(stored))]
        entries = self.bind(KeyColumn.of(pa.array([key for key, _ in pairs], self.codec.arrow_type)))
        return [(entry, namespace) for entry, (_, namespace) in zip(entries, pairs, strict=True)]

    def enter_namespace(self, namespace: Namespace, keys: Iterable[KeyEntry]) -> None:
        """Sets the current namespace. The state that ``keys`` have in it is read together, at the first use."""
        self.namespace = namespace
        self._pairs.upcoming = keys

    def expect(self, pairs: Iterable[tuple[KeyEntry, Namespace]]) -> None:
        """Announces the keys and namespaces that will be used: their state is read together, at the first use."""
        self._pairs.expect(pairs)

    def merge_namespaces(self, descriptor: d.StateDescriptor, sources: Iterable[Namespace]) -> None:
        """Moves what the current key has in other namespaces into what it has in the current one.

        Raises:
            InvalidProgramError: when the state is none of which two can be made one.
        """
        state, target = self.namespaced_state(descriptor), self.namespace
        if not hasattr(state, "absorb"):
            raise InvalidProgramError(
                f"two states of {descriptor.label} cannot be made one: use reducing, aggregating or list state"
            )
        taken = []
        for source in sources:
            self.namespace = source
            taken.append(state.take())
        self.namespace = target
        for content in taken:
            if content is not None:
                state.absorb(content)

    def begin_epoch(self, clock: int, event_time: int) -> None:
        """Starts an epoch without any keys."""
        self.clock, self.event_time = clock, event_time
        self.forget_keys()

    def forget_keys(self) -> None:
        """Lets go of the keys of the epoch and of their state in memory."""
        super().forget_keys()
        self._pairs.forget_keys()
        self._of_keys.forget_keys()
        self._of_pairs.forget_keys()

    def end_epoch(self) -> None:
        """Writes what has changed into runs.

        Raises:
            InvalidTypeError: when the key of a map's entry cannot be one, or an object not be pickled, which shows here
                first; it names the state.
        """
        self.current = NO_KEY
        self._of_keys.end_epoch()
        self._of_pairs.end_epoch()


def _check_same(declared: d.StateDescriptor, descriptor: d.StateDescriptor) -> None:
    if declared is descriptor or declared.describes_same(descriptor):
        return
    how = f"as {declared!r} and as {descriptor!r}"
    if (declared.kind, declared.stored_types()) == (descriptor.kind, descriptor.stored_types()):
        how = "with different times to live"
    raise InvalidProgramError(f"the operator declares the state {descriptor.name!r} twice: {how}")
