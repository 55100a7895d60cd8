"""The sinks of a job in the driver: what they commit with an epoch, and the commits themselves, beside later epochs."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Final

from headrace.checkpoint.manifest import Manifest, PendingCommit
from headrace.common import options
from headrace.common.call_site import of_traceback
from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    ConfigurationError,
    HeadraceError,
    InfrastructureError,
    InvalidProgramError,
    JobCancelledError,
    LogError,
    UserFunctionError,
)
from headrace.common.logs import get_logger, with_fields
from headrace.connectors.sink import Committer, CommitterContext, DeliveryGuarantee, PreCommit, Sink, without_committer
from headrace.connectors.sink_checks import checked_committer, checked_pre_committed, checked_time
from headrace.graph.specs import SinkSpec
from headrace.jobmanager.runtime import Runtime, run_in_tasks
from headrace.operators.user_code import text_of
from headrace.plan.job_plan import JobPlan, PlannedOperator
from headrace.runtime.task.messages import SerializedJob
from headrace.storage.folder import sink_folder

_Step = Callable[[], None]


logger = get_logger(__name__)

MAX_PENDING_EPOCHS = 3
"""The most epochs that wait for their sinks; then the job waits as well."""

CLOSE_SECONDS: Final = 5.0
"""The time that a job that has failed or was cancelled waits for its sinks; then it leaves them behind."""

_LOOK_SECONDS = 0.05
_FIRST_RETRY_SECONDS = 0.1
_LAST_RETRY_SECONDS = 10.0
_ATTEMPTS = 8


class CommitCoordinator:
    """Commits what sinks prepared, on a thread of its own: nothing else calls committers, and it may be left behind.

    Args:
        committers: by uid of the sink.
        durable: the sinks whose committables belong into the manifest.
        names: the sinks' names, for errors.
        sleep: waits between two attempts; tests pass their own.
        restored: what was to be committed before; :meth:`start` commits it.
        check_owner: raises a ``JobSupersededError`` when the job is another job manager's now.
        cancelled: set when the job is cancelled: then nothing waits for sinks any more.
    """

    def __init__(
        self,
        committers: Mapping[str, Committer],
        durable: frozenset[str],
        names: Mapping[str, str],
        sleep: Callable[[float], object] | None = None,
        *,
        restored: Sequence[PendingCommit] = (),
        check_owner: Callable[[], None] = lambda: None,
        cancelled: threading.Event | None = None,
    ) -> None:
        self._committers = committers
        self._durable = durable
        self._labels = {uid: label_of(names.get(uid, uid), uid) for uid in committers}
        self._check_owner = check_owner
        self._cancelled = cancelled or threading.Event()
        self._closing = threading.Event()
        self._sleep = sleep or self._closing.wait
        self._unacknowledged: deque[PendingCommit] = deque(restored)
        self._lock = threading.Condition()
        self._work: queue.SimpleQueue[list[_Step] | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._waiting_epochs = 0
        self._doing = ""
        self._thread = threading.Thread(target=with_fields(self._run), name="headrace-committer", daemon=True)
        self._thread.start()

    def pending(self, new: Sequence[PendingCommit] = ()) -> tuple[PendingCommit, ...]:
        """The commits that the next manifest has to hold: durable ones that are not acknowledged, and new ones."""
        with self._lock:
            return tuple(commit for commit in (*self._unacknowledged, *new) if commit.sink in self._durable)

    def transient(self) -> list[PendingCommit]:
        """The commits that no manifest holds and that are not acknowledged; they are lost with this process."""
        with self._lock:
            return [commit for commit in self._unacknowledged if commit.sink not in self._durable]

    def start(self) -> None:
        """Commit what was to be committed before; raises as :meth:`drain`."""
        self._enqueue([partial(self._commit, commit) for commit in self._unacknowledged])
        self.drain(MAX_PENDING_EPOCHS)

    def submit(self, commits: Sequence[PendingCommit]) -> None:
        """The manifest that holds these exists: have them committed."""
        with self._lock:
            self._unacknowledged.extend(commits)
        self._enqueue([partial(self._commit, commit) for commit in commits])

    def check(self) -> None:
        """Raise what a commit failed with."""
        if self._failure is not None:
            raise self._failure

    def drain(self, most: int = 0) -> None:
        """Wait until everything is committed, but for ``most`` epochs.

        Raises:
            CommitRefusedError: when a commit was refused for good.
            InfrastructureError: when a commit could not be done in many attempts.
            UserFunctionError: when a committer raised something else.
            JobCancelledError: when the job is cancelled while this waits.
        """
        with self._lock:
            while self._waiting_epochs > most and self._failure is None and not self._cancelled.is_set():
                self._lock.wait(_LOOK_SECONDS)
            is_over = self._waiting_epochs <= most
        self.check()
        if not is_over:
            raise JobCancelledError(f"the job was cancelled during {self._doing}")

    def recover(self, in_progress: Mapping[str, object]) -> None:
        """After everything pending is committed: let sinks check what is in progress, and remove what attempts left."""
        self._have_done("recovery", lambda sink, committer: committer.recover(in_progress.get(sink)))

    def finish(self) -> None:
        """The job has ended: commit the rest, and let sinks remove what they kept for themselves."""
        self._have_done("clean-up", lambda _, committer: committer.finish())

    def join(self) -> None:
        """Stop the thread and wait for it, however long its sinks take: another coordinator is to take its place.

        Raises:
            JobCancelledError: when the job is cancelled while this waits.
        """
        self._closing.set()
        self._work.put(None)
        while self._thread.is_alive():
            if self._cancelled.is_set():
                raise JobCancelledError(f"the job was cancelled during {self._doing}")
            self._thread.join(_LOOK_SECONDS)

    def close(self) -> None:
        """Stop the thread; what is not committed stays in the manifest.

        A committer that does not return is left behind, and named in a warning.
        """
        self._closing.set()
        self._work.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            logger.warning(
                "%s has not ended within %g s: it is left behind, and done again when the job goes on",
                self._doing,
                CLOSE_SECONDS,
            )
            self._failure = self._failure or JobCancelledError("the job is over")  # nothing follows when it wakes up

    def _have_done(self, what: str, call: Callable[[str, Committer], None]) -> None:
        self.drain()
        for sink, committer in self._committers.items():
            step = partial(self._attempt, f"{what} of {self._labels[sink]}", partial(call, sink, committer), attempts=1)
            self._enqueue([step])
        self.drain()

    def _enqueue(self, steps: list[_Step]) -> None:
        if steps:
            with self._lock:
                self._waiting_epochs += 1
                self._work.put(steps)

    def _run(self) -> None:
        while (steps := self._work.get()) is not None:
            if self._failure is None:
                try:
                    for step in steps:
                        if self._failure is None:  # else the job was left while this thread was at the step before
                            step()
                except BaseException as error:  # raised again in the job manager's thread
                    self._failure = error
            with self._lock:
                self._waiting_epochs -= 1
                self._lock.notify_all()
        for sink, committer in self._committers.items():
            self._doing = f"closing {self._labels[sink]}"
            try:
                committer.close()
            except Exception:
                logger.warning("%s failed", self._doing, exc_info=True)

    def _commit(self, commit: PendingCommit) -> None:
        committer = self._committers.get(commit.sink)
        if committer is None:
            raise CommitRefusedError(
                f"epoch {commit.epoch} has committables of a sink with uid {commit.sink}, which the program no longer "
                "has; add it again (same uid) and let the job run once, then take it out; to leave them unpublished "
                f"for good, set {options.IGNORE_UNCLAIMED_STATE.key}=true"
            )
        label = f"{self._labels[commit.sink]}, epoch {commit.epoch}"
        what = (commit.epoch, commit.committables, commit.processing_time)
        try:
            self._attempt(f"the commit of {label}", partial(committer.commit, *what))
            self._attempt(f"what follows the commit of {label}", partial(committer.post_commit, *what))
        except CommitRefusedError as error:
            raise type(error)(f"{label}: {error}") from error
        with self._lock:
            self._unacknowledged.remove(commit)

    def _attempt(self, what: str, call: _Step, *, attempts: int = _ATTEMPTS) -> None:
        """Call a committer; other errors than ours are reported as the failure of a user's function."""
        delay = _FIRST_RETRY_SECONDS
        for left in reversed(range(attempts)):
            try:
                self._check_owner()
                self._doing = what
                call()
                return
            except HeadraceError:
                raise
            except OSError as error:
                if not left or self._closing.is_set():
                    raise failure_of(what, error) from error
                logger.warning("%s failed and is tried again in %g s: %s", what, delay, error)
                self._sleep(delay)
                delay = min(delay * 2, _LAST_RETRY_SECONDS)
            except Exception as error:
                raise failure_of(what, error) from error


def label_of(name: str, uid: str) -> str:
    """The name of a sink in messages."""
    return f"sink {name!r} (uid {uid})"


def failure_of(what: str, error: Exception) -> Exception:
    """The error to raise in the place of another one.

    What headrace says itself stays what it is; a fault of a machine or a connection may pass; anything else is the
    failure of a function of the user.

    Args:
        what: what was done, with the sink.
        error: what was raised.
    """
    if isinstance(error, ConfigurationError | LogError) or type(error) in (InfrastructureError, InvalidProgramError):
        return type(error)(f"{what} failed: {error}")
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, OSError):
        return InfrastructureError(f"{what} failed: {error}")
    site = of_traceback(error.__traceback__)
    where = f"\n  at {site}" if site else ""
    return UserFunctionError(f"{what} failed\n  {type(error).__name__}: {text_of(error)}{where}")


class JobSinks:
    """All sinks of a job; what is known of their output is in the manifest.

    Args:
        plan: the job.
        blob: the same as it travels to tasks.
        runtime: does what is too much for the driver in its tasks.

    Attributes:
        names: their names, by uid, for errors.
        durable: the uids of those whose committables belong into the manifest.
    """

    def __init__(self, plan: JobPlan, blob: SerializedJob, runtime: Runtime) -> None:
        self._blob = blob
        self._run_in_tasks = partial(run_in_tasks, runtime)
        self.names: dict[str, str] = {}
        self._sinks: dict[str, tuple[PlannedOperator, Sink]] = {}
        self._pre_commits: dict[str, PreCommit | None] = {}
        self._committed: set[str] = set()
        durable: set[str] = set()
        for planned in plan.operators():
            if isinstance(planned.node.spec, SinkSpec):
                uid, sink = planned.uid, planned.node.spec.sink
                self.names[uid], self._sinks[uid] = planned.node.name, (planned, sink)
                self._pre_commits[uid] = sink.pre_commit
                if sink.is_durable:
                    durable.add(uid)
        self.durable = frozenset(durable)

    def check_output(self, manifest: Manifest) -> None:
        """See whether there is output of later epochs than a manifest that was found.

        Raises:
            CheckpointError: when there is, so that the checkpoint is an old copy.
        """
        for planned, sink in self._sinks.values():
            with _calling(planned, "looking at the output"):
                sink.check_output(self._context(planned, manifest, manifest.epoch))

    def committers(self, manifest: Manifest) -> Iterator[tuple[str, Committer]]:
        """A new committer for each sink that has one, with its uid, to go on from a manifest that was taken over.

        Raises:
            InvalidProgramError: when a sink promises more than it can keep without one.
            CheckpointError: when a sink has none any more, and there is output that one has to show.
        """
        unshown = {*manifest.in_progress, *map(attrgetter("sink"), manifest.pending)}
        for uid, (planned, sink) in self._sinks.items():
            # Taking over takes a number of its own.
            with _calling(planned, "making the committer"):
                made = sink.create_committer(self._context(planned, manifest, max(0, manifest.epoch - 1)))
                committer = checked_committer(sink, made)
            if committer is not None:
                self._committed.add(uid)
                yield uid, committer
            elif sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
                site = planned.node.call_site
                raise InvalidProgramError(f"sink {self.names[uid]!r}: {without_committer(sink)}\n  at {site}")
            elif uid in unshown:
                raise CheckpointError(
                    f"the checkpoint has output of sink {self.names[uid]!r} (uid {uid}) that is not shown yet, and the "
                    f"sink has no committer now, as it is {sink.delivery_guarantee.name}: run the job once with the "
                    "guarantee that it had, stop it, and then change the guarantee"
                )

    def pre_commit(
        self, manifest: Manifest, epoch: int, now: int, written: Mapping[str, Sequence[object]], *, is_last: bool
    ) -> tuple[tuple[PendingCommit, ...], dict[str, object]]:
        """Decide what is committed with an epoch.

        Args:
            manifest: that of the epoch before.
            epoch: the epoch.
            now: its clock reading in milliseconds.
            written: what the writers gave, by uid of the sink.
            is_last: whether the job ends with it.

        Returns:
            What is committed once the manifest exists; and by uid of the sink what is written, but waits for more.
        """
        commits: list[PendingCommit] = []
        in_progress: dict[str, object] = {}
        for uid, pre_commit in self._pre_commits.items():
            ready: Sequence[object] = written.get(uid, ())
            if pre_commit is not None:
                with _calling(self._sinks[uid][0], "the pre-commit"):
                    found = pre_commit.prepare(manifest.in_progress.get(uid), ready, now, is_last=is_last)
                    prepared = checked_pre_committed(pre_commit, found, is_last=is_last)
                ready = prepared.ready
                if prepared.in_progress is not None:
                    in_progress[uid] = prepared.in_progress
            if ready and uid not in self._committed:
                raise InvalidProgramError(
                    f"the writer of sink {self.names[uid]!r} gave something to be committed, {ready[0]!r:.200}, and "
                    "the sink has no committer: give it a create_committer(), or have the writer show its records "
                    f"itself and give []\n  at {self._sinks[uid][0].node.call_site}"
                )
            if ready:
                commits.append(PendingCommit(epoch, uid, now, tuple(ready)))
        return tuple(commits), in_progress

    def check_early_end(self) -> None:
        """Refuse to publish output before the input has ended.

        Raises:
            InvalidProgramError: naming a sink whose output is right only then.
        """
        for uid, pre_commit in self._pre_commits.items():
            if pre_commit is not None and pre_commit.needs_whole_input:
                raise InvalidProgramError(
                    f"{label_of(self.names[uid], uid)} replaces what is there by the whole output of the job, and the "
                    "input has not ended: let the job run to its end, or cancel it, which leaves what is there"
                )

    def next_due(self, manifest: Manifest) -> int | None:
        """Return when something in progress becomes ready by itself, in milliseconds; None for never."""
        times: list[int] = []
        for uid, pre_commit in self._pre_commits.items():
            if pre_commit is not None and uid in manifest.in_progress:
                with _calling(self._sinks[uid][0], "the pre-commit"):
                    due = checked_time(pre_commit, "due", pre_commit.due(manifest.in_progress[uid]))
                times += [] if due is None else [due]
        return min(times, default=None)

    def _context(self, planned: PlannedOperator, manifest: Manifest, restored_epoch: int) -> CommitterContext:
        return CommitterContext(
            job_id=manifest.job_id,
            operator_id=planned.uid,
            input_type=planned.inputs[0].record_type,
            generation=manifest.generation,
            restored_epoch=restored_epoch,
            run_in_tasks=self._run_in_tasks,
            storage_options=self._blob.storage_options,
            parallelism=planned.parallelism,
            folder=sink_folder(self._blob.storage, planned.uid),
            waiting=tuple(commit.epoch for commit in manifest.pending if commit.sink == planned.uid),
        )


@contextmanager
def _calling(planned: PlannedOperator, what: str) -> Iterator[None]:
    """Around calls of the driver's half of a sink: errors name the sink and its line in the program."""
    try:
        yield
    except Exception as error:
        found = failure_of(f"{what} of {label_of(planned.node.name, planned.uid)}", error)
        if found is error:
            raise
        raise found from (error.__cause__ if isinstance(error, HeadraceError) else error)
