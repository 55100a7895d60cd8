"""State backends: where the state of a job is kept while it runs, and what a checkpoint holds of it.

A :class:`StateBackend` opens the state of one task (:class:`TaskStates`), which gives each operator of the task its own
(:class:`OperatorStates`): keyed states and timers, states without keys, logs of tables. Operators and tasks use nothing
but what is declared here. ``docs/state-backends.md`` says what a backend has to keep to.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.common.errors import UnsupportedOperationError
from headrace.common.plugins import Plugin, PluginGroup
from headrace.state.kinds import KEYED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.common.configuration import Configuration
    from headrace.state import descriptors as d
    from headrace.state.exported import ExportedTable
    from headrace.state.interfaces import ListState, MapState
    from headrace.state.keyed.namespaces import Namespace
    from headrace.state.keys import KeyCodec, KeyColumn
    from headrace.state.keys.entries import AnyKeyEntry, NoKey
    from headrace.state.kinds import StateKinds
    from headrace.state.run_entries import RunHead
    from headrace.state.runs import RunStore
    from headrace.state.timers import Timer
    from headrace.state.version import VersionRef
    from headrace.storage.folder import Folder

DEFAULT_BACKEND: Final = "hashmap"
"""The name of the backend that is used when none is set."""

ROCKSDB_BACKEND: Final = "rocksdb"
"""The name of the one with tables of RocksDB, which is an extra."""


class KeyedStates(Protocol):
    """The keyed states of one operator; :class:`headrace.state.keyed.scope.KeyScope` has all but the states themselves.

    Attributes:
        codec: how keys are stored.
        current: the key that is being processed; the operator sets it, and sets it to ``NO_KEY`` afterwards.
        namespace: the namespace that state of a key and namespace is used in.
        event_time: the event time that what is being processed meets; the operator sets it as it goes.
    """

    codec: KeyCodec
    current: AnyKeyEntry | NoKey
    namespace: Namespace
    event_time: int

    def bind(self, keys: KeyColumn) -> list[AnyKeyEntry]:
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

    def keys_of(self, descriptor: d.StateDescriptor) -> Sequence[AnyKeyEntry]:
        """The keys that may have something in a state, those of this epoch among them, in the order of hash and key.

        Whether one has, the state tells.
        """

    def keys_and_namespaces(self, descriptor: d.StateDescriptor) -> Sequence[tuple[AnyKeyEntry, Namespace]]:
        """The keys and namespaces of which a state was stored when the epoch began, each pair once, in any order.

        Whether it still holds something of a pair, the state tells.
        """

    def enter_namespace(self, namespace: Namespace, keys: Iterable[AnyKeyEntry]) -> None:
        """Sets the current namespace. ``keys`` are those that will be current in it: their state may be read ahead."""

    def expect(self, pairs: Iterable[tuple[AnyKeyEntry, Namespace]]) -> None:
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

    def foresee(self, up_to: int) -> Sequence[tuple[AnyKeyEntry, Namespace]]:
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
        """Those in event time, which advances with the watermark."""

    @property
    def processing(self) -> DomainTimers:
        """Those in processing time, which advances with the epochs' clock."""


class StatesWithoutKeys(Protocol):
    """Lists and broadcast maps of one subtask of an operator.

    All methods raise a ``StateError`` when the operator's spec does not declare that kind of state.
    """

    @property
    def is_restored(self) -> bool:
        """Whether this is the first epoch after a start of the job from a checkpoint that knows the operator."""

    def list_state(self, descriptor: d.ListStateDescriptor) -> ListState[Any]:
        """A list; after a start at another parallelism, an equal share of the elements of all subtasks."""

    def union_list_state(self, descriptor: d.ListStateDescriptor) -> ListState[Any]:
        """A list; after a start, the elements of all subtasks."""

    def broadcast_state(self, descriptor: d.MapStateDescriptor) -> MapState[Any, Any]:
        """A map, which has to be changed alike in all subtasks."""

    def list_log(self, name: str) -> RunStore:
        """A log of tables, as :meth:`OperatorStates.store` gives one, whose rows are dealt out as elements of a list.

        Of ordered tables the rows that are over are nobody's: :meth:`Redistribution.runs` knows how to cut them.
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
        """When the earliest timer in processing time is due (or earlier); None when there is none."""

    def begin_epoch(self, watermark: int, processing_time: int) -> None:
        """Starts an epoch: event time has come to ``watermark``, the clock reads ``processing_time``."""

    def end_epoch(self) -> None:
        """Ends the epoch. The keys that were bound in it are not used any more.

        Raises:
            InvalidTypeError: when something cannot be stored; it names the operator and the state.
        """


class TaskStates(Protocol):
    """The state of all operators of one task, open for the next epoch.

    After :meth:`snapshot` it stands for the version that was written, so a task may keep it for the next epoch. After a
    failed epoch it is closed, and opened anew from the last version that counts.
    """

    @property
    def ref(self) -> VersionRef | None:
        """The version that it stands for; None when that has to be written first."""

    def operator(self, uid: str) -> OperatorStates:
        """The state of the operator with that uid; the same object every time."""

    def adopt(self, result: Any) -> bool:
        """Puts what background work has made in the place of what it was made of; only between two epochs.

        Args:
            result: what :meth:`StateBackend.run_compaction` gave, for a version that may be some epochs old.

        Returns:
            False when the result is of no use any more.
        """

    def snapshot(self, epoch: int, generation: int, inline_threshold: int) -> VersionRef:
        """Writes what has changed and returns the new version, or the old one when nothing has changed.

        All operators have ended the epoch. The same changes give the same bytes under the same name. A version of up to
        ``inline_threshold`` bytes is held in the reference itself.
        """

    def size_in_bytes(self) -> int:
        """How many bytes the version takes, wherever they are."""

    def close(self) -> None:
        """Lets go of files and memory; called once, also after a failure."""


class CompactionWork(Protocol):
    """Background work on the state of one task, planned by a backend; it travels to any process as a pickle."""

    @property
    def stage(self) -> int:
        """The stage of the task."""

    @property
    def partition(self) -> int:
        """The partition of the task."""

    @property
    def is_shared(self) -> bool:
        """Whether the outcome is for all tasks of the stage: they adopt it in the same epoch."""


class CompactionOutcome(Protocol):
    """What became of background work; it travels to the task as a pickle."""

    @property
    def task(self) -> CompactionWork:
        """The work."""

    @property
    def file(self) -> str:
        """The file that was written, which is deleted unless a version comes to need it; empty for none."""


@dataclass(frozen=True, slots=True)
class StateOwner:
    """An operator that may have state in a task.

    Attributes:
        parallelism: how many subtasks it has.
        max_parallelism: how many key groups.
        kinds: the kinds of state that it may have.
        before: at a start of the job, how many subtasks it had, so that its state without keys is dealt out; None where
            each subtask goes on with its own.
        shares: whether its subtasks have their broadcast state in common: it may be stored once, and at a start all of
            them go on with that of the first old one.
    """

    parallelism: int
    max_parallelism: int
    kinds: StateKinds = KEYED
    before: int | None = None
    shares: bool = False


@dataclass(frozen=True, slots=True)
class NewVersion:
    """Which version of the state of a task is to be written; attributes as in :class:`VersionRef` and ``snapshot``."""

    stage: int
    partition: int
    epoch: int
    generation: int
    inline_threshold: int


class StateBackend(Plugin):
    """Opens the state of tasks. It travels to them with the job, so it is pickled and holds no open files."""

    noun = "state backend"

    def configured(self, configuration: Configuration) -> StateBackend:
        """The backend as a job's configuration wants it; called once, in the driver. Itself when it has no options.

        Raises:
            ConfigurationError: when an option cannot be what it is.
        """
        return self

    @abstractmethod
    def open(
        self,
        storage: Folder,
        refs: Sequence[VersionRef],
        stage: int,
        partition: int,
        operators: Mapping[str, StateOwner],
    ) -> TaskStates:
        """Opens the state of a task.

        ``refs`` is empty for a new job and the one version of the partition usually. After a change of parallelism it
        holds the versions of all old partitions whose key groups this partition now owns, wholly or in part; and at a
        start of the job those that hold state without keys of which it gets some.

        Args:
            storage: where state files are.
            refs: the versions.
            stage: the stage of the task.
            partition: its partition.
            operators: the operators that are in this task, by uid; state of others is left out, since it is read
                elsewhere.

        Raises:
            StateCorruptedError: when a file is missing or damaged.
        """

    def export_tables(self, storage: Folder, ref: VersionRef, now: int) -> Iterator[ExportedTable]:
        """What a version holds, in tables that every backend can take in; called in any process, beside the epochs.

        Args:
            storage: where state files are.
            ref: the version; its files stay as long as this goes on.
            now: processing time in milliseconds; what has expired by then is left out.

        Raises:
            UnsupportedOperationError: when the backend cannot.
            StateCorruptedError: when a file is missing or damaged.
        """
        raise UnsupportedOperationError(f"{self} cannot export its state: take a native savepoint")

    def heads(self, storage: Folder, ref: VersionRef) -> Iterator[RunHead]:
        """What a version says of its runs, without rows; called in the driver, before a job runs.

        What operators keep by themselves is compared with it. A backend that has no runs says nothing: operators
        refuse what they find when they are opened.

        Args:
            storage: where state files are.
            ref: the version.

        Raises:
            StateCorruptedError: when a file is missing or damaged.
        """
        return iter(())

    def import_tables(
        self, storage: Folder, tables: Iterable[ExportedTable], version: NewVersion, operators: Mapping[str, StateOwner]
    ) -> VersionRef:
        """Writes a version that holds what tables do; called in any process, before the first epoch.

        Args:
            storage: where state files are.
            tables: all tables of the task, to be gone through once.
            version: which version it becomes; the same tables give the same bytes under the same name.
            operators: the operators whose tables these are; ``before`` is None.

        Raises:
            UnsupportedOperationError: when the backend cannot.
            StateError: when a table has keys that the task does not own.
        """
        raise UnsupportedOperationError(f"{self} cannot import state: start from a native savepoint of its own")

    def rename_operators(
        self,
        storage: Folder,
        ref: VersionRef,
        uids: Mapping[str, str],
        version: NewVersion,
        operators: Mapping[str, StateOwner],
    ) -> VersionRef:
        """Writes a version that holds what another one does, under other uids; called as :meth:`import_tables` is.

        Args:
            storage: where state files are.
            ref: the version that there is.
            uids: the new uid of each operator that gets one, by the one it has in that version. They change at once,
                so two operators may change theirs.
            version: which version it becomes.
            operators: the operators of that version, by the uids that they have in it.

        Raises:
            UnsupportedOperationError: when the backend cannot.
            StateCorruptedError: when a file is missing or damaged.
        """
        raise UnsupportedOperationError(
            f"{self} cannot rename operators: take a canonical savepoint, and start from it"
        )

    def verify(self, storage: Folder, ref: VersionRef) -> None:
        """Reads all of a version that holds something, to see whether it is whole.

        Args:
            storage: where state files are.
            ref: the version.

        Raises:
            UnsupportedOperationError: when the backend cannot.
            StateCorruptedError: when a file is missing or damaged.
        """
        for table in self.export_tables(storage, ref, 0):
            table.whole()

    def plan_compaction(
        self,
        storage: Folder,
        ref: VersionRef,
        now: int,
        generation: int,
        event_times: Mapping[str, int] = MappingProxyType({}),
    ) -> Sequence[CompactionWork]:
        """What is worth doing with a version beside the epochs; nothing by default. Called in the driver.

        Args:
            storage: where state files are.
            ref: the version.
            now: a reading of the job's clock, in milliseconds.
            generation: that of the job manager; names of files that are written have it.
            event_times: by operator uid, the event time that the task has reached.
        """
        return ()

    def run_compaction(self, storage: Folder, work: Any) -> CompactionOutcome:
        """Does what :meth:`plan_compaction` has planned, in any process; the same work always writes the same file.

        Raises:
            StateCorruptedError: when a file is missing or damaged.
        """
        raise NotImplementedError(f"{self} plans compactions and cannot run them")


STATE_BACKENDS: Final = PluginGroup(
    "headrace.state_backends",
    StateBackend,  # type: ignore[type-abstract] # what plugins extend, never made itself
    {
        DEFAULT_BACKEND: "headrace.state.task_state:HashMapStateBackend",
        ROCKSDB_BACKEND: "headrace.state.rocksdb.backend:RocksDBStateBackend",
    },
    {
        "forst": f"use {ROCKSDB_BACKEND!r}, whose tables lie in the checkpoint directory too, on an object store or "
        "HDFS as well; tasks keep copies of those that they read"
    },
)
"""All that are there."""
