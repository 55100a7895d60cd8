"""State and files of operators and sources get other uids, those of the program, in a job's checkpoint directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from headrace.common.errors import InfrastructureError, SavepointError
from headrace.savepoint.source_files import named_files, put
from headrace.savepoint.tasks import Rename, versions_of, with_versions

if TYPE_CHECKING:
    from headrace.checkpoint.manifest import Manifest
    from headrace.checkpoint.store import CheckpointStore
    from headrace.checkpoint.temporary_store import TemporaryStore
    from headrace.jobmanager.runtime import Runtime
    from headrace.plan.job_plan import JobPlan
    from headrace.savepoint.uid_mapping import UidMapping
    from headrace.state.version import VersionRef

    Store = CheckpointStore | TemporaryStore

T = TypeVar("T")


def with_renamed_state(
    known: Manifest, manifest: Manifest, uids: UidMapping, plan: JobPlan, runtime: Runtime, store: Store
) -> Manifest:
    """A manifest with state under the program's uids; of the files that hold it all but the indexes stay.

    Args:
        known: the job with the uids that state has.
        manifest: the same with the program's; what is written has its epoch and generation.
        uids: which are which.
        plan: the job.
        runtime: its tasks write.
        store: the job's directory, which has the state files.

    Raises:
        SavepointError: when something cannot be written, or a file is missing.
    """
    threshold = plan.settings.inline_threshold
    tasks = list(versions_of(known, manifest.epoch, manifest.generation, threshold))
    work = Rename(plan.settings.state_backend, store.state, uids.new_by_old)
    return with_versions(manifest, written_by_tasks(work, tasks, runtime))


def copy_source_files(known: Manifest, uids: UidMapping, store: Store) -> None:
    """Give sources with other uids what they keep beside their positions; it stays where it was for older manifests.

    Args:
        known: the job with the uids that there were.
        uids: which are which.
        store: the job's directory.
    """
    for old, source in known.sources.items():
        if uids.of(old) != old:
            for name, content in named_files(source, store.source_folder(old)):
                put(name, content, store.source_folder(uids.of(old)))


def written_by_tasks(work: Callable[[T], VersionRef], tasks: Sequence[T], runtime: Runtime) -> list[VersionRef]:
    """The versions that tasks of a runtime write.

    Raises:
        SavepointError: when one cannot be written.
    """
    try:
        return runtime.run_background(work, tasks).result() if tasks else []
    except InfrastructureError as error:
        raise SavepointError(f"state could not be brought in: {error}") from error
