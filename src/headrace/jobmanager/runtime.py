"""What a runtime has to offer: it executes the stages of one epoch, and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.task.instance import JobBlob
    from headrace.runtime.task.messages import EpochContext, TaskReport
    from headrace.state.compaction import CompactionResult, CompactionTask
    from headrace.storage.folder import Folder


class Runtime(Protocol):
    """Runs the tasks of an epoch somewhere: in this process, or as a Spark query."""

    def start(self, blob: JobBlob) -> None:
        """Get ready for a job.

        Raises:
            CheckpointStorageError: when a task cannot write where the state is kept.
        """

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        """Run every task of every stage once, each stage after the one before.

        Returns:
            The report of each task.

        Raises:
            InfrastructureError: on a fault that is not the program's; it is planned anew and run again.
            OSError: likewise.
        """

    def start_compaction(
        self, storage: Folder, tasks: list[CompactionTask]
    ) -> Callable[[], list[CompactionResult] | None]:
        """Begin to merge immutable runs beside the epochs.

        Returns:
            Gives the results once they are there, and None before.
        """

    def cancel(self) -> None:
        """Give up the epoch that runs, from another thread; ``run_epoch`` raises."""

    def close(self) -> None:
        """The job is over."""
