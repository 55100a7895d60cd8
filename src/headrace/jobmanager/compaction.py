"""Compaction beside the epochs: it requests work from the state backend, and an epoch adopts the results."""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial

from headrace.checkpoint.manifest import Manifest
from headrace.common.errors import HeadraceError
from headrace.common.logs import get_logger
from headrace.jobmanager.runtime import Runtime
from headrace.runtime.task.background import compact
from headrace.state.backend import CompactionOutcome, CompactionWork, StateBackendPlugin
from headrace.storage.folder import Folder

logger = get_logger(__name__)

EPOCHS_BETWEEN_LOOKS = 8
"""The epochs between two searches for runs to merge: reading the indexes costs a millisecond a partition.

Where a search has found some, the next one follows as soon as these are merged: a round may leave others for later.
"""


class CompactionCoordinator:
    """Has the runtime do the background work of a state backend while epochs go on; at most one round at a time.

    Args:
        runtime: does the work.
        storage: where state files are.
        backend: plans the work.
    """

    def __init__(self, runtime: Runtime, storage: Folder, backend: StateBackendPlugin) -> None:
        self._backend = backend
        self._runtime = runtime
        self._storage = storage
        self._running: Future[list[CompactionOutcome | None]] | None = None
        self._offered: list[CompactionOutcome] = []
        self._epochs = 0
        self._has_more = False
        self._is_stale = False

    def adoptions(self, manifest: Manifest) -> Mapping[tuple[int, int], tuple[CompactionOutcome, ...]]:
        """The results of compaction that the epoch after a manifest has to adopt, by stage and partition."""
        if self._running is not None and self._running.done():
            self._take_results(self._running)
        by_task: dict[tuple[int, int], tuple[CompactionOutcome, ...]] = {}
        for result in self._offered:
            task = result.task
            shared = range(len(manifest.stages[task.stage].partitions)) if task.is_shared else (task.partition,)
            for partition in shared:
                by_task[task.stage, partition] = (*by_task.get((task.stage, partition), ()), result)
        return by_task

    def epoch_completed(self, manifest: Manifest) -> None:
        """An epoch's manifest exists: forget what it has adopted, and look for more work now and then.

        The epoch has adopted what it was offered; what came too late is a file that is not needed.
        """
        if self._offered:
            self._delete(self._offered, set(manifest.state_files()))
            self._offered = []
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

    def _take_results(self, done: Future[list[CompactionOutcome | None]]) -> None:
        is_stale, self._running, self._is_stale = self._is_stale, None, False
        results = _results_of(done)
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
