"""``HashMapOperatorStates``: keyed state, timers, operator state and logs of one operator in one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateError
from headrace.state.keyed.backend import STORE_PREFIX, KeyedStateBackend
from headrace.state.kinds import KEYED
from headrace.state.operator.backend import OperatorStateBackend
from headrace.state.operator.redistribution import kind_of_store
from headrace.state.runs.ordered import LOW
from headrace.state.timers import HashMapTimers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.state.keys import KeyCodec
    from headrace.state.kinds import StateKinds
    from headrace.state.runs import RunStore


class HashMapOperatorStates:
    """All state of one operator, from epoch to epoch.

    An epoch is ``begin_epoch``, any use, ``end_epoch``; after that the task takes its snapshot.

    Args:
        uid: the operator.
        store: gives the runs of a store by its name.
        kinds: the kinds of state that its spec declares.
        is_restored: whether the job has just gone on from a checkpoint that knows the operator.
        stored: gives the names of the stores that hold something.
    """

    def __init__(
        self,
        uid: str,
        store: Callable[[str], RunStore],
        kinds: StateKinds = KEYED,
        *,
        is_restored: bool = False,
        stored: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.uid = uid
        self.stored = stored
        self._store = store
        self._without_keys: OperatorStateBackend | None = None
        if kinds - KEYED:
            self._without_keys = OperatorStateBackend(uid, kinds, store, is_restored=is_restored)
        self._backend: KeyedStateBackend | None = None
        self._timers: HashMapTimers | None = None
        self._clock = 0
        self._watermark = MIN_WATERMARK

    def bind_key_codec(self, codec: KeyCodec) -> None:
        """Says how the operator's keys are stored; before :attr:`keyed` or :attr:`timers` is used. Once is enough.

        Raises:
            InvalidProgramError: when the inputs of the operator have keys of different types.
        """
        if self._backend is None:
            self._backend = KeyedStateBackend(codec, self._store)
            self._backend.begin_epoch(self._clock, self._watermark)
        elif self._backend.codec.to_json() != codec.to_json():
            raise InvalidProgramError(
                f"the inputs of operator {self.uid!r} have keys of different types: {self._backend.codec.type} "
                f"and {codec.type}"
            )

    @property
    def keyed(self) -> KeyedStateBackend:
        """The keyed states."""
        if self._backend is None:
            raise StateError(f"the operator {self.uid!r} has no keys, so it has no keyed state and no timers")
        return self._backend

    @property
    def timers(self) -> HashMapTimers:
        """The timers."""
        if self._timers is None:
            self._timers = HashMapTimers(self.keyed, self._store)
            self._timers.begin_epoch(self._watermark)
        return self._timers

    @property
    def operator_state_store(self) -> OperatorStateBackend:
        """The states without keys."""
        if self._without_keys is None:
            raise StateError(f"the spec of operator {self.uid!r} declares no kind of state without keys")
        return self._without_keys

    def store(self, name: str) -> RunStore:
        """A store of runs for the operator's own use. Names with a slash are taken by the states and timers."""
        if "/" in name:
            raise StateError(f"the name of a store must not contain a slash: {name!r}")
        return self._store(name)

    def drop_windows(self, *states: str) -> int:
        """Drops timers, logs, states of key and namespace, and these states of keys; returns how many rows."""
        of_windows = {STORE_PREFIX + name for name in states}
        rows = 0
        for name in self.stored():
            if kind_of_store(name) is None and (name in of_windows or not name.startswith(STORE_PREFIX)):
                store = self._store(name)
                rows += sum(run.count_own_rows(run.meta.get(LOW, 0)) for run in store.runs)
                for run in store.runs:
                    store.drop(run)
        if self._backend is not None:
            self._backend = KeyedStateBackend(self._backend.codec, self._store)
            self._backend.begin_epoch(self._clock, self._watermark)
        self._timers = None
        return rows

    def earliest_processing_time(self) -> int | None:
        """When the earliest timer in processing time is due (or earlier); None when there is none."""
        return self.timers.earliest_processing_time() if self._backend is not None else None

    def begin_epoch(self, watermark: int, processing_time: int) -> None:
        """Starts an epoch: event time has come to ``watermark``, the clock reads ``processing_time``."""
        self._watermark, self._clock = watermark, processing_time
        if self._backend is not None:
            self._backend.begin_epoch(processing_time, watermark)
        if self._timers is not None:
            self._timers.begin_epoch(watermark)

    def end_epoch(self) -> None:
        """Ends the epoch: what has changed becomes runs.

        Raises:
            InvalidTypeError: when something cannot be stored; it names the operator.
        """
        for states in (self._backend, self._without_keys):
            if states is not None:
                try:
                    states.end_epoch()
                except InvalidTypeError as error:
                    raise InvalidTypeError(f"operator {self.uid!r}, {error}") from error
        if self._timers is not None:
            self._timers.end_epoch()
        if self._backend is not None:
            self._backend.forget_keys()
