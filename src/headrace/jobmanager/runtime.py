"""The protocol of runtimes."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from headrace.common.errors import InfrastructureError
from headrace.runtime.task.messages import EpochContext, SerializedJob, TaskReport

T = TypeVar("T")
R = TypeVar("R")


class Runtime(Protocol):
    """Runs the tasks of an epoch somewhere, in this process or as a Spark query, and nothing more."""

    def start(self, blob: SerializedJob) -> None:
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

    def slots(self) -> int:
        """Return how many tasks it can run at the same time now; executors of a cluster come and go."""

    def about(self) -> tuple[str, str]:
        """Return where tasks run, in words, and the address at which that is shown; empty for nowhere."""

    def check(self) -> None:
        """Look whether it can still run tasks; called now and then while there is nothing to run.

        Raises:
            JobExecutionError: when it cannot, and never will again.
        """

    def run_background(self, work: Callable[[T], R], items: Sequence[T], *, gives_way: bool = False) -> Future[list[R]]:
        """Begin to do something on the runtime's tasks beside the epochs.

        Args:
            work: what to do with an item, in a task; may be done twice.
            items: what to do it with, each in a task of its own; they and the results travel as pickles.
            gives_way: whether epochs come first: it can wait, and is done with what they leave of the machine.

        Returns:
            The results, in the order of the items, or the first error that the work has raised; an
            ``InfrastructureError`` when the tasks themselves failed.
        """

    def cancel(self) -> None:
        """Give up the epoch that runs, from another thread; ``run_epoch`` raises."""

    def close(self) -> None:
        """The job is over."""


def run_in_tasks(runtime: Runtime, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Do something on the runtime's tasks beside the epochs, and wait for it.

    Raises:
        OSError: when the tasks themselves failed; a commit is tried again then where it is.
    """
    try:
        return runtime.run_background(work, items).result()
    except InfrastructureError as error:
        raise OSError(str(error)) from error
