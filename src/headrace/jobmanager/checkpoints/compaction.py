"""When runs are merged in the background, and how the outcome gets into a later epoch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.common.errors import HeadraceError
from headrace.common.logs import get_logger
from headrace.runtime.task.background import compact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from concurrent.futures import Future

    from headrace.checkpoint.manifest import Manifest
    from headrace.jobmanager.runtime import Runtime
    from headrace.state.backend import CompactionOutcome, CompactionWork, StateBackend
    from headrace.storage.folder import Folder

logger = get_logger(__name__)

EPOCHS_BETWEEN_LOOKS = 8
"""How often the state is looked at for runs to merge: reading the indexes costs a millisecond a partition.

Where a look has found some, the next one follows as soon as these are merged: a round may leave others for later.
"""


class CompactionCoordinator:
    """Has the runtime do the background work of a state backend while epochs go on; at most one round at a time.

    Args:
        runtime: does the work.
        storage: where state files are.
        backend: plans the work.
    """

    def __init__(self, runtime: Runtime, storage: Folder, backend: StateBackend) -> None:
        self._backend = backend
        self._runtime = runtime
        self._storage = storage
        self._running: Future[list[CompactionOutcome | None]] | None = None
        self._offered: list[CompactionOutcome] = []
        self._epochs = 0
        self._has_more = False
        self._partitions: dict[int, int] = {}
        self._is_stale = False

    def adoptions(self) -> Mapping[tuple[int, int], tuple[CompactionOutcome, ...]]:
        """What the next epoch has to adopt, by stage and partition."""
        self._look_at_running()
        by_task: dict[tuple[int, int], tuple[CompactionOutcome, ...]] = {}
        for result in self._offered:
            for partition in self._partitions_of(result.task):
                where = (result.task.stage, partition)
                by_task[where] = (*by_task.get(where, ()), result)
        return by_task

    def _partitions_of(self, work: CompactionWork) -> range:
        """The partitions whose tasks adopt the outcome."""
        return range(self._partitions[work.stage]) if work.is_shared else range(work.partition, work.partition + 1)

    def epoch_completed(self, manifest: Manifest) -> None:
        """An epoch's manifest exists: forget what it has adopted, and look for more work now and then."""
        self._forget_offered(manifest)
        self._partitions = {number: len(stage.partitions) for number, stage in enumerate(manifest.stages)}
        self._epochs += 1
        if self._running is None and (self._has_more or self._epochs % EPOCHS_BETWEEN_LOOKS == 0):
            tasks = self._plan(manifest)
            self._has_more = False
            if tasks:
                work = partial(compact, self._backend, self._storage)
                self._running = self._runtime.run_background(work, tasks, gives_way=True)

    def restarted(self) -> None:
        """The job goes on from its newest manifest, and no file is there any more that the manifest does not need."""
        self._offered = []
        self._is_stale = self._running is not None

    def _look_at_running(self) -> None:
        running, is_stale = self._running, self._is_stale
        if running is None or not running.done():
            return
        self._running, self._is_stale = None, False
        results = _results_of(running)
        if is_stale:
            self._delete(results, needed=())
        else:
            self._offered = results
            self._has_more = bool(results)

    def _plan(self, manifest: Manifest) -> list[CompactionWork]:
        return [
            task
            for stage in manifest.stages
            for partition in stage.partitions
            if partition.version is not None and partition.version.files
            for task in self._backend.plan_compaction(
                self._storage,
                partition.version,
                manifest.processing_time,
                manifest.generation,
                {uid: progress.watermark for uid, progress in partition.progress.items()},
            )
        ]

    def _forget_offered(self, manifest: Manifest) -> None:
        """What was offered to an epoch was adopted by it, or came too late and is a file that nobody needs."""
        offered, self._offered = self._offered, []
        self._delete(offered, set(manifest.state_files()))

    def _delete(self, results: Iterable[CompactionOutcome], needed: Collection[str]) -> None:
        for result in results:
            if result.file and result.file not in needed:
                self._storage.remove(result.file)


def _results_of(round_: Future[list[CompactionOutcome | None]]) -> list[CompactionOutcome]:
    try:
        return [result for result in round_.result() if result is not None]
    except (HeadraceError, OSError) as error:
        logger.warning("a compaction is given up; state grows until a later one makes up for it: %s", error)
        return []
