"""The protocols of state that operators use, whichever backend keeps it.

A task gives each of its operators its own (:class:`OperatorStates`): keyed states and timers, states without keys, logs
of tables. ``docs/state-backends.md`` says what has to be kept to.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Protocol

from headrace.state import descriptors as d
from headrace.state.interfaces import ListState, MapState
from headrace.state.keyed.namespaces import Namespace
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.codecs import KeyEntry
from headrace.state.runs import RunStore
from headrace.state.timers import Timer


class KeyedStates(Protocol):
    """The keyed states of one operator; a :class:`~headrace.state.keyed.namespaces.KeyScope` has all but the states.

    Attributes:
        codec: how keys are stored.
        current: the key that is being processed; the operator sets it, and sets it to ``NO_KEY`` afterwards.
        namespace: the namespace that state of a key and namespace is used in.
        event_time: the event time that what is being processed meets; the operator sets it as it goes.
    """

    codec: KeyCodec
    current: KeyEntry
    namespace: Namespace
    event_time: int

    def bind(self, keys: KeyColumn) -> list[KeyEntry]:
        """The entry of each key; equal keys have the same entry throughout an epoch."""

    def state(self, descriptor: d.StateDescriptor) -> Any:
        """The state of a descriptor, for the current key: what the descriptor's kind has in ``state.interfaces``.

        Raises:
            StateMigrationError: when something else is stored under its name.
            InvalidProgramError: when the program declares the name twice, differently.
        """

    def namespaced_state(self, descriptor: d.StateDescriptor) -> Any:
        """The state of a descriptor, for the current key and namespace; errors as in :meth:`state`.

        A state with the same name that is kept by the key alone is another one.
        """

    def keys_of(self, descriptor: d.StateDescriptor) -> Sequence[KeyEntry]:
        """The keys that may have something in a state, those of this epoch among them, in the order of hash and key.

        Whether one has, the state tells.
        """

    def keys_and_namespaces(self, descriptor: d.StateDescriptor) -> Sequence[tuple[KeyEntry, Namespace]]:
        """The keys and namespaces of which a state was stored when the epoch began, each pair once, in any order.

        Whether it still holds something of a pair, the state tells.
        """

    def enter_namespace(self, namespace: Namespace, keys: Iterable[KeyEntry]) -> None:
        """Sets the current namespace. ``keys`` are those that will be current in it: their state may be read ahead."""

    def expect(self, pairs: Iterable[tuple[KeyEntry, Namespace]]) -> None:
        """Says which keys will be current in which namespaces: their state may be read ahead."""

    def merge_namespaces(self, descriptor: d.StateDescriptor, sources: Iterable[Namespace]) -> None:
        """Moves what the current key has in other namespaces into what it has in the current one, in that order.

        Elements of lists are added at the end; values that are reduced are combined by the reduce function,
        accumulators by the ``merge`` of the aggregate function.

        Raises:
            InvalidProgramError: when the state is none of which two can be made one (a value or a map).
        """


class DomainTimers(Protocol):
    """The timers of one operator in event time, or in processing time."""

    @property
    def next_due(self) -> int:
        """The time of the earliest timer, or an earlier one; ``NO_TIMER`` when there is none."""

    def register(self, time: int, namespace: Namespace = None) -> None:
        """Registers a timer of the current key. One whose time has been passed fires with the next advance."""

    def delete(self, time: int, namespace: Namespace = None) -> None:
        """Deletes a timer of the current key, if there is such a one."""

    def foresee(self, up_to: int) -> Sequence[tuple[KeyEntry, Namespace]]:
        """Says that time will advance to ``up_to`` before long, if in steps: what that makes due may be read ahead.

        Returns:
            The keys and namespaces of timers that are due then, as far as they are known; what they hold is read ahead.
        """

    def pop_due(self, up_to: int) -> Iterator[Timer]:
        """Time advances to ``up_to``: the timers that are due, by time, then hash and key, then namespace.

        Each timer is gone before it is given out. Timers that are registered meanwhile with a time that is not above
        ``up_to`` are among them; those that are deleted meanwhile are not. Nothing happens unless time does advance.
        """


class Timers(Protocol):
    """The timers of one operator."""

    @property
    def event(self) -> DomainTimers:
        """The timers in event time, which advances with the watermark."""

    @property
    def processing(self) -> DomainTimers:
        """The timers in processing time, which advances with the epochs' clock."""


class StatesWithoutKeys(Protocol):
    """Lists and broadcast maps of one subtask of an operator.

    All methods raise a ``StateError`` when the operator's spec does not declare that kind of state.
    """

    @property
    def is_restored(self) -> bool:
        """Return whether this is the first epoch after a start of the job from a checkpoint that knows the operator."""

    def list_state(self, descriptor: d.ListStateDescriptor) -> ListState:
        """A list; after a start at another parallelism, an equal share of the elements of all subtasks."""

    def union_list_state(self, descriptor: d.ListStateDescriptor) -> ListState:
        """A list; after a start, the elements of all subtasks."""

    def broadcast_state(self, descriptor: d.MapStateDescriptor) -> MapState:
        """A map, which has to be changed alike in all subtasks."""

    def list_log(self, name: str) -> RunStore:
        """A log of tables, as :meth:`OperatorStates.store` gives one, whose rows are dealt out as elements of a list.

        Of ordered tables the rows that are over belong to no subtask: :meth:`Redistribution.runs` cuts them.
        """


class OperatorStates(Protocol):
    """Everything that one operator keeps in one task.

    An epoch is ``begin_epoch``, any use, ``end_epoch``; after that the task takes its snapshot.
    """

    def bind_key_codec(self, codec: KeyCodec) -> None:
        """Says how the operator's keys are stored; before ``keyed`` or ``timers`` is used, once for each input.

        Raises:
            InvalidProgramError: when the inputs of the operator have keys of different types.
        """

    @property
    def keyed(self) -> KeyedStates:
        """The keyed states; a ``StateError`` for an operator without keys."""

    @property
    def timers(self) -> Timers:
        """The timers; a ``StateError`` for an operator without keys."""

    @property
    def operator_state_store(self) -> StatesWithoutKeys:
        """The states without keys; a ``StateError`` when the operator's spec declares no such kind."""

    def store(self, name: str) -> RunStore:
        """A log of Arrow tables for the operator's own use, as windows have it; its name has no slash.

        The operator appends, merges and replaces tables; the backend only has to keep them, in their order, with what
        their writer says about them (``meta``).
        """

    def stored(self) -> Sequence[str]:
        """The names of all stores that hold something, those with a slash of states and timers included."""

    def drop_windows(self, *states: str) -> int:
        """Drops all that windows hold, for good, before an epoch begins: timers, logs, states of key and namespace.

        States of keys alone, and states without keys, stay. What was taken of others before is of no use any more.

        Args:
            states: the names of states of keys that are dropped as well.

        Returns:
            How many rows, or timers, that is.
        """

    def earliest_processing_time(self) -> int | None:
        """Return when the earliest timer in processing time is due (or earlier); None when there is none."""

    def begin_epoch(self, watermark: int, processing_time: int) -> None:
        """Starts an epoch: event time has come to ``watermark``, the clock reads ``processing_time``."""

    def end_epoch(self) -> None:
        """Ends the epoch. The keys that were bound in it are not used any more.

        Raises:
            InvalidTypeError: when something cannot be stored; it names the operator and the state.
        """


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
    """The names of some kinds in manifests and plans, always in the same order."""
    return [kind.value for kind in StateKind if kind in kinds]


STORE_PREFIX: Final = "state/"
"""Stores of states by key are called so, followed by the name of the state."""
NAMESPACED_PREFIX: Final = "namespaced/"
"""The same of states by key and namespace."""
_PREFIXES: Final = {StateKind.LIST: "list/", StateKind.UNION: "union/", StateKind.BROADCAST: "broadcast/"}


def store_name(kind: StateKind, name: str) -> str:
    """The name of the store that holds a state without keys."""
    return _PREFIXES[kind] + name


def kind_of_store(store: str) -> StateKind | None:
    """The kind of state without keys that is in a store; None for one that is kept by key."""
    return next((kind for kind, prefix in _PREFIXES.items() if store.startswith(prefix)), None)


def is_broadcast(store: str) -> bool:
    """Return whether what is in a store all subtasks of the operator have alike."""
    return kind_of_store(store) is StateKind.BROADCAST
