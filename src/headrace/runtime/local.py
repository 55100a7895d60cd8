"""The local runtime: epochs in this process, without Spark; the oracle of the tests and the users' harness."""

import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, chdir, contextmanager, nullcontext
from functools import partial
from typing import Final, TypeVar

from headrace.common.durable import TemporaryFolder, writing
from headrace.common.errors import InfrastructureError
from headrace.common.job_files import UnpackedFiles, working_with
from headrace.common.logs import get_logger
from headrace.common.pickling import pickle_by_value
from headrace.exchange.envelope import Envelope, EnvelopeKind, sort_key
from headrace.operators.user_code import EpochCancelledError, InterruptibleRun
from headrace.runtime.task.background import attempt
from headrace.runtime.task.dependencies import NOTHING, JobDependencies, enter, entries_of, held_on_path, unpack
from headrace.runtime.task.messages import EpochContext, SerializedJob, TaskReport, with_times
from headrace.runtime.task.runner import TaskRunner
from headrace.runtime.task.task_clock import TaskTimes

T = TypeVar("T")
R = TypeVar("R")

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 0.1


class _WorkingDirectory:
    """The working directory of the process, of which there is one for all the jobs in it.

    Functions find the archives of their job below it. So an epoch of a job that brings archives has it for itself,
    while those of other jobs, which may read relative paths, run beside each other.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users = 0
        self._is_elsewhere = False

    @contextmanager
    def used(self, folder: str | None, given_up: threading.Event) -> Iterator[bool]:
        """Inside, it is a folder; the program's own when that is None.

        Args:
            folder: the folder.
            given_up: ends the waiting for the epochs of other jobs; then it is what they need, and False is yielded.
        """
        is_mine = self._take(folder, given_up)
        try:
            with nullcontext() if folder is None or not is_mine else chdir(folder):
                yield is_mine
        finally:
            if is_mine:
                with self._changed:
                    self._users -= 1
                    self._is_elsewhere = False
                    self._changed.notify_all()

    def _take(self, folder: str | None, given_up: threading.Event) -> bool:
        with self._changed:
            if self._is_taken(folder) and not given_up.is_set():
                logger.info("an epoch waits for other jobs of the process: one of them brings archives along")
            while self._is_taken(folder):
                if given_up.is_set():
                    return False
                self._changed.wait(_LOOK_SECONDS)
            self._users += 1
            self._is_elsewhere = folder is not None
            return True

    def _is_taken(self, folder: str | None) -> bool:
        return self._is_elsewhere or (folder is not None and self._users > 0)


_WORKING_DIRECTORY: Final = _WorkingDirectory()


class LocalRuntime:
    """Executes epochs in this process; implements :class:`headrace.jobmanager.runtime.Runtime`."""

    def __init__(self) -> None:
        self._runner: TaskRunner | None = None
        self._parallelism: tuple[int, ...] = ()
        self._unpacked: TemporaryFolder | None = None
        self._brought = ExitStack()
        self._works_in: str | None = None
        self._files = UnpackedFiles()
        self._interruptible = InterruptibleRun()
        self._given_up = threading.Event()
        self._times: list[TaskTimes] = []

    def start(self, blob: SerializedJob) -> None:
        """Get ready for a job, or for another plan of it."""
        self.close()
        if blob.dependencies != NOTHING:
            self._unpack(blob.dependencies)
        self._parallelism = blob.parallelism
        self._runner = TaskRunner(blob)
        self._runner.on_times = self._times.append

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        """Run every task once, stage by stage."""
        assert self._runner is not None, "start() comes first"
        self._given_up.clear()
        with self._surroundings() as may_run:
            if not may_run:
                raise InfrastructureError(f"epoch {context.epoch} was given up before it began")
            try:
                return self._interruptible.run(partial(self._run, self._runner, context))
            except EpochCancelledError as error:
                self._runner.drop_interrupted()
                raise InfrastructureError(f"epoch {context.epoch} was given up") from error

    def _run(self, runner: TaskRunner, context: EpochContext) -> list[TaskReport]:
        self._times.clear()
        envelopes: list[Envelope] = []
        for subtask in range(self._parallelism[0]):
            envelopes.extend(runner.run_source_task(subtask, context))
        for stage, parallelism in enumerate(self._parallelism[1:], start=1):
            tasks: list[list[Envelope]] = [[] for _ in range(parallelism)]
            for envelope in envelopes:
                tasks[envelope.partition % parallelism].append(envelope)
            envelopes = []
            for task in tasks:
                envelopes.extend(runner.run_stage_task(stage, sorted(task, key=sort_key)))
        reports = (pickle.loads(envelope.payload) for envelope in envelopes if envelope.kind == EnvelopeKind.REPORT)
        return with_times(reports, self._times)

    def slots(self) -> int:
        """The cores of this machine, although tasks run one after the other."""
        return os.cpu_count() or 1

    def about(self) -> tuple[str, str]:
        """The process of the job, which is not shown."""
        return "its own process", ""

    def check(self) -> None:
        """This process can always run tasks."""

    def run_background(self, work: Callable[[T], R], items: Sequence[T], *, gives_way: bool = False) -> Future[list[R]]:
        """Do it at once, between two epochs. All of it is pickled, as it would be for another process."""
        done: Future[list[R]] = Future()
        try:
            pickled = pickle_by_value(work)
            parts = [pickle.dumps(item, protocol=5) for item in items]
            outcomes = [attempt(pickle.loads(pickled), pickle.loads(part)).to_bytes() for part in parts]
            done.set_result([pickle.loads(outcome).result() for outcome in outcomes])
        except Exception as error:
            done.set_exception(error)
        return done

    def cancel(self) -> None:
        """Interrupt the user's code; what does not return to Python (a sleep, say) is not to be interrupted."""
        self._given_up.set()
        self._interruptible.interrupt()

    def close(self) -> None:
        """Close the user's functions."""
        self._given_up.set()  # they are closed where the process is, rather than not at all
        if self._runner is not None:
            with self._surroundings():
                self._runner.close()
            self._runner = None
        if self._unpacked is not None:
            self._unpacked.remove()
            self._unpacked = None
        self._brought.close()

    def _unpack(self, dependencies: JobDependencies) -> None:
        into = self._unpacked = TemporaryFolder("unpacked-")
        with writing("the job"):
            folders = {archive.name: unpack(archive, str(into.path)) for archive in dependencies.all()}
        self._files = enter(dependencies, folders.__getitem__)
        if dependencies.bundle is not None:
            self._brought.enter_context(held_on_path(entries_of(folders[dependencies.bundle.name])))
        self._works_in = str(into.path) if dependencies.archives else None

    @contextmanager
    def _surroundings(self) -> Iterator[bool]:
        """The environment of functions only while they run: their working directory, and the files of their job."""
        files = nullcontext() if self._unpacked is None else working_with(self._files)
        with _WORKING_DIRECTORY.used(self._works_in, self._given_up) as is_theirs, files:
            yield is_theirs
