"""What the tests of state share: one operator's state over epochs, reopened, rescaled and compacted at will."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.typeinfo import Types
from headrace.state.backend import DEFAULT_BACKEND, StateBackendPlugin, StateOwner
from headrace.state.compaction import CompactionResult, CompactionTask
from headrace.state.hashmap_backend import HashMapBackend, HashMapTaskStates
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import partitions_of_hashes, range_of_partition
from headrace.state.state_file import NewVersion, VersionRef
from headrace.storage.file_system import MappedFile, PosixFileSystem
from headrace.storage.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.state.hashmap_backend import HashMapOperatorStates

UID = "operator"
MAX_PARALLELISM = 16


class PartialFile(MappedFile):
    """A file of which no byte is right before it is fetched."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._bytes = bytearray(b"\xa5" * len(content))
        super().__init__(pa.py_buffer(self._bytes))

    def fetch(self, start: int, stop: int) -> None:
        assert 0 <= start <= stop <= len(self._content)
        self._bytes[start:stop] = self._content[start:stop]


class MemoryFolder(Folder):
    """State files in memory; of folders it has none but itself, and no logs."""

    def __init__(self) -> None:
        super().__init__(PosixFileSystem(), "memory")
        self.files: dict[str, bytes] = {}

    def __str__(self) -> str:
        return "memory"

    def folder(self, name: str) -> Folder:
        raise NotImplementedError

    def make(self) -> None:
        pass

    def open_to_others(self) -> str | None:
        return None

    def create(self, name: str, content: bytes) -> bool:
        return self.files.setdefault(name, content) is content

    def write(self, name: str, chunks: Iterable[Any], *, durable: bool = True) -> None:
        self.files[name] = b"".join(memoryview(chunk) for chunk in chunks)

    def read(self, name: str) -> bytes:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self.read(name)[start : start + length]

    def map(self, name: str) -> MappedFile:
        return PartialFile(self.read(name))

    def size(self, name: str) -> int | None:
        return len(self.files[name]) if name in self.files else None

    def names(self) -> list[str]:
        return sorted(self.files)

    def remove(self, name: str) -> bool:
        return self.files.pop(name, None) is not None

    def remove_unfinished(self, is_over: Callable[[str], bool]) -> list[str]:
        return []


class Job:
    """One keyed operator at some parallelism, whose epochs the test drives.

    Every epoch opens its state anew from what a manifest would hold, unless ``keep`` is set.
    """

    def __init__(
        self,
        codec: KeyCodec | None = None,
        *,
        parallelism: int = 1,
        inline_threshold: int = 0,
        storage: Folder | None = None,
        keep: bool = False,
        backend: StateBackendPlugin | None = None,
    ) -> None:
        self.backend = backend or HashMapBackend(DEFAULT_BACKEND)
        self.codec = codec or KeyCodec.for_type(Types.LONG())
        self.parallelism = parallelism
        self.inline_threshold = inline_threshold
        self.storage = storage if storage is not None else MemoryFolder()
        self.keep = keep
        self.epoch = 0
        self.watermark = -(1 << 63)
        self.clock = 0
        self.refs: list[VersionRef] = []
        self.tasks: list[HashMapTaskStates] = []
        self.results: list[CompactionResult] = []
        self.held: list[CompactionResult] = []

    def begin(self) -> list[HashMapOperatorStates]:
        """Opens the state of every partition and begins an epoch."""
        if not self.tasks:
            self.tasks = [self._open(partition) for partition in range(self.parallelism)]
        for partition, task in enumerate(self.tasks):
            for result in self.results:
                if result.task.partition == partition:
                    task.adopt(result)
        self.results = []
        operators = [task.operator(UID) for task in self.tasks]
        for operator in operators:
            operator.bind_key_codec(self.codec)
            operator.begin_epoch(self.watermark, self.clock)
        return operators

    def end(self) -> list[VersionRef]:
        """Ends the epoch and takes the snapshot."""
        refs = []
        for task in self.tasks:
            task.operator(UID).end_epoch()
            ref = task.snapshot(self.epoch, 1, self.inline_threshold)
            assert VersionRef.from_json(ref.to_json()) == ref
            refs.append(ref)
        self.refs = refs
        self.epoch += 1
        if not self.keep:
            self.tasks = []
        return refs

    def _open(self, partition: int) -> HashMapTaskStates:
        mine, old = set(range_of_partition(partition, self.parallelism, MAX_PARALLELISM)), len(self.refs)
        owned = [range_of_partition(index, old, MAX_PARALLELISM) for index in range(old)]
        refs = [ref for ref, groups in zip(self.refs, owned, strict=True) if mine & set(groups)]
        owners = {UID: StateOwner(self.parallelism, MAX_PARALLELISM)}
        task: Any = self.backend.open(self.storage, refs, 1, partition, owners)
        return task  # type: ignore[no-any-return] # of another type where the test has asked for another backend

    def rescale(self, parallelism: int) -> None:
        """Goes on at another parallelism, between two epochs."""
        self.parallelism = parallelism
        self.tasks = []
        self.results, self.held = [], []

    def transplant(self) -> None:
        """Goes on from tables that all state was exported to, in a storage of its own, between two epochs."""
        old, self.storage, self.tasks, self.results = self.storage, MemoryFolder(), [], []
        self.held = []
        owners = {UID: StateOwner(len(self.refs), MAX_PARALLELISM)}
        for index, ref in enumerate(self.refs):
            tables = list(self.backend.export_tables(old, ref, self.clock))
            version = NewVersion(1, ref.partition, self.epoch, 1, self.inline_threshold)
            self.refs[index] = self.backend.import_tables(self.storage, tables, version, owners)
        self.epoch += 1

    def compact(self, now: int = 0, event_time: int | None = None) -> int:
        """Merges what is worth merging; the next epoch adopts it. Returns how many tasks there were."""
        backend, times = self.backend, {} if event_time is None else {UID: event_time}
        planned = [task for ref in self.refs for task in backend.plan_compaction(self.storage, ref, now, 0, times)]
        tasks: list[CompactionTask] = [*planned]  # type: ignore[list-item] # of the backends that compact
        for task in tasks:
            again = pickle.loads(pickle.dumps(task))
            done: CompactionResult = backend.run_compaction(self.storage, again)  # type: ignore[assignment]
            self.results.append(pickle.loads(pickle.dumps(done)))
        return len(tasks)

    def hold(self) -> None:
        """What was merged is not there yet; epochs go on without it until :meth:`release`."""
        self.held += self.results
        self.results = []

    def release(self) -> None:
        """The next epoch adopts what was held, as far as that is of use any more."""
        self.results = self.held + self.results
        self.held = []

    def collect_garbage(self) -> None:
        """Deletes every file that the version does not need."""
        needed = {name for ref in self.refs for name in ref.files}
        needed |= {result.run["file"] for result in [*self.results, *self.held] if result.run}
        for name in self.storage.names():
            if name not in needed:
                self.storage.remove(name)

    def on_keys(
        self, operators: Sequence[HashMapOperatorStates], keys: Sequence[Any], action: Callable[..., Any]
    ) -> list[Any]:
        """Calls ``action(operator, key, position)`` for each key, which is then the current one of its operator."""
        column = self.codec.encode(list(keys))
        partitions = partitions_of_hashes(column.hashes, self.parallelism, MAX_PARALLELISM)
        results: list[Any] = [None] * len(keys)
        for partition, operator in enumerate(operators):
            rows = (partitions == partition).nonzero()[0]
            if not len(rows):
                continue
            entries = operator.keyed.bind(column.take(rows))
            for row, entry in zip(rows.tolist(), entries, strict=True):
                operator.keyed.current = entry
                results[row] = action(operator, entry.key, row)
        return results


def at_key(job: Job, key: Any = 1) -> Any:
    """The backend of an epoch that has begun, with ``key`` being processed."""
    (operator,) = job.begin()
    operator.keyed.current = operator.keyed.bind(job.codec.encode([key]))[0]
    return operator.keyed
