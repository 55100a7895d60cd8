"""State backends: where the state of a job is kept while it runs, and what a checkpoint holds of it.

A :class:`StateBackendPlugin` opens the state of one task (:class:`TaskStates`), which gives each operator of the task
its own (:class:`~headrace.state.protocols.OperatorStates`). The driver and tasks use nothing but what is declared here,
and operators nothing but those protocols. ``docs/state-backends.md`` says what a backend has to keep to.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from headrace.common.configuration import Configuration
from headrace.common.errors import UnsupportedOperationError
from headrace.common.plugins import Plugin, PluginGroup
from headrace.state.exported_tables import ExportedTable
from headrace.state.protocols import KEYED, OperatorStates, StateKinds
from headrace.state.state_file import NewVersion, RunHead, VersionRef
from headrace.storage.folder import Folder

DEFAULT_BACKEND: Final = "hashmap"
"""The name of the backend that is used when none is set."""

ROCKSDB_BACKEND: Final = "rocksdb"
"""The name of the one with tables of RocksDB, which is an extra."""


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
            result: what :meth:`StateBackendPlugin.run_compaction` gave, for a version that may be some epochs old.

        Returns:
            False when the result is of no use any more.
        """

    def snapshot(self, epoch: int, generation: int, inline_threshold: int) -> VersionRef:
        """Writes what has changed and returns the new version, or the old one when nothing has changed.

        All operators have ended the epoch. The same changes give the same bytes under the same name. A version of up to
        ``inline_threshold`` bytes is held in the reference itself.
        """

    def sizes(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many bytes the version takes, wherever they are, by uid of the operator and name of the store."""

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
        """Return whether the outcome is for all tasks of the stage: they adopt it in the same epoch."""


class CompactionOutcome(Protocol):
    """The result of background work; it travels to the task as a pickle."""

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


class StateBackendPlugin(Plugin):
    """Opens the state of tasks. It travels to them with the job, so it is pickled and holds no open files."""

    noun = "state backend"

    def configured(self, configuration: Configuration) -> "StateBackendPlugin":
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
        """The contents of a version, in tables that every backend can import; called in any process, beside the epochs.

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
        """The descriptions of a version's runs, without rows; called in the driver, before a job runs.

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
            for _ in table.batches:
                pass

    def plan_compaction(
        self,
        storage: Folder,
        ref: VersionRef,
        now: int,
        generation: int,
        event_times: Mapping[str, int] = MappingProxyType({}),
    ) -> Sequence[CompactionWork]:
        """Background work on a version that is worth doing; nothing by default. Called in the driver.

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
    StateBackendPlugin,
    {
        DEFAULT_BACKEND: "headrace.state.hashmap_backend:HashMapBackend",
        ROCKSDB_BACKEND: "headrace.state.rocksdb.backend:RocksDBBackend",
    },
    {
        "forst": f"use {ROCKSDB_BACKEND!r}, whose tables lie in the checkpoint directory too, on an object store or "
        "HDFS as well; tasks keep copies of those that they read"
    },
)
"""All that are there."""
