"""What the tests of state share: one operator's state over epochs, reopened, rescaled and compacted at will."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.typeinfo import Types
from headrace.state.compaction import CompactionResult, CompactionTask, plan_compaction, run_compaction
from headrace.state.key_groups import overlapping_partitions, partitions_of_hashes
from headrace.state.keys import KeyCodec
from headrace.state.storage import MemoryStorage
from headrace.state.task_state import TaskState
from headrace.state.version import VersionRef

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.state.operator_state import OperatorState
    from headrace.state.storage import StateStorage

UID = "operator"
MAX_PARALLELISM = 16


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
        storage: StateStorage | None = None,
        keep: bool = False,
    ) -> None:
        self.codec = codec or KeyCodec.for_type(Types.LONG())
        self.parallelism = parallelism
        self.inline_threshold = inline_threshold
        self.storage = storage if storage is not None else MemoryStorage()
        self.keep = keep
        self.epoch = 0
        self.watermark = -(1 << 63)
        self.clock = 0
        self.refs: list[VersionRef] = []
        self.tasks: list[TaskState] = []
        self.results: list[CompactionResult] = []

    def begin(self) -> list[OperatorState]:
        """Opens the state of every partition and begins an epoch."""
        if not self.tasks:
            self.tasks = [self._open(partition) for partition in range(self.parallelism)]
        for task in self.tasks:
            for result in self.results:
                if result.task.partition == task._partition:
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

    def _open(self, partition: int) -> TaskState:
        old = len(self.refs)
        chosen = overlapping_partitions(partition, self.parallelism, old, MAX_PARALLELISM) if old else range(0)
        refs = [self.refs[index] for index in chosen]
        return TaskState.open(self.storage, refs, 1, partition, self.parallelism, MAX_PARALLELISM)

    def rescale(self, parallelism: int) -> None:
        """Goes on at another parallelism, between two epochs."""
        self.parallelism = parallelism
        self.tasks = []
        self.results = []

    def compact(self, now: int = 0) -> int:
        """Merges what is worth merging; the next epoch adopts it. Returns how many tasks there were."""
        tasks = [task for ref in self.refs for task in plan_compaction(self.storage, ref, now)]
        for task in tasks:
            again = CompactionTask.from_json(task.to_json())
            self.results.append(CompactionResult.from_json(run_compaction(self.storage, again).to_json()))
        return len(tasks)

    def collect_garbage(self) -> None:
        """Deletes every file that the version does not need."""
        needed = {name for ref in self.refs for name in ref.files}
        needed |= {result.run["file"] for result in self.results if result.run}
        for name in self.storage.list():
            if name not in needed:
                self.storage.delete(name)

    def on_keys(self, operators: Sequence[OperatorState], keys: Sequence[Any], action: Callable[..., Any]) -> list[Any]:
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
