"""State that a ``ProcessWindowFunction`` keeps: of the key, and of one window of the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.common.typeinfo import Types
from headrace.state.key_entries import NO_KEY
from headrace.state.keyed_backend import STORE_PREFIX, KeyedStateBackend
from headrace.state.keys import EncodedKeys, KeyColumn

if TYPE_CHECKING:
    from headrace.state.key_entries import AnyKeyEntry
    from headrace.state.operator_state import OperatorState
    from headrace.state.runs import RunStore

_WINDOW_STATE = "window state of "
"""Stores of state per key and window are called so, followed by the name of the state."""


class KeyedStateStore:
    """Gives out the states of descriptors; names as in PyFlink."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def get_state(self, state_descriptor: Any) -> Any:
        """The ``ValueState`` of a descriptor."""
        return self._backend.value_state(state_descriptor)

    def get_list_state(self, state_descriptor: Any) -> Any:
        """The ``ListState`` of a descriptor."""
        return self._backend.list_state(state_descriptor)

    def get_map_state(self, state_descriptor: Any) -> Any:
        """The ``MapState`` of a descriptor."""
        return self._backend.map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        """The ``ReducingState`` of a descriptor."""
        return self._backend.reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        """The ``AggregatingState`` of a descriptor."""
        return self._backend.aggregating_state(state_descriptor)


class WindowStates:
    """The states of the key, and of the key and window, that are being processed.

    State per window is keyed state whose keys are pairs of key and window. The pairs keep the hash of the key alone, so
    that they belong to the subtask that the key belongs to.

    Args:
        state: what the operator keeps.
    """

    def __init__(self, state: OperatorState) -> None:
        self._state = state
        self._backend = state.keyed
        self._codec = EncodedKeys(Types.PICKLED_BYTE_ARRAY())
        self._of_windows: KeyedStateBackend | None = None
        self._end = 0

    def bind(self, keys: KeyColumn) -> list[AnyKeyEntry]:
        """What :meth:`enter` is to be given for each key."""
        return self._backend.bind(keys)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        if self._of_windows is not None:
            self._of_windows.begin_epoch(self._backend.clock)

    def end_epoch(self) -> None:
        """Writes what has changed."""
        if self._of_windows is not None:
            self._of_windows.end_epoch()

    def enter(self, entry: AnyKeyEntry, end: int) -> None:
        """From now on, state is that of this key and of its window with this end."""
        self._backend.current = entry
        self._end = end
        if self._of_windows is not None:
            self._enter_window(self._of_windows)

    def leave(self) -> None:
        """From now on, state cannot be used."""
        self._backend.current = NO_KEY
        if self._of_windows is not None:
            self._of_windows.current = NO_KEY

    def of_key(self) -> KeyedStateStore:
        """State of the key, shared by its windows."""
        return KeyedStateStore(self._backend)

    def of_window(self) -> KeyedStateStore:
        """State of the key and window."""
        if self._of_windows is None:
            self._of_windows = KeyedStateBackend(self._codec, self._store)
            self._of_windows.begin_epoch(self._backend.clock)
            self._enter_window(self._of_windows)
        return KeyedStateStore(self._of_windows)

    def _enter_window(self, backend: KeyedStateBackend) -> None:
        entry = self._backend.current
        pair = self._codec.encode([(entry.raw, self._end)])
        hashes = np.array([entry.hash], np.uint64)
        backend.current = backend.bind(KeyColumn(pair.values, hashes))[0]

    def _store(self, name: str) -> RunStore:
        return self._state.store(_WINDOW_STATE + name.removeprefix(STORE_PREFIX))
