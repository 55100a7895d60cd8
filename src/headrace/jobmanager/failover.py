"""Failover: a failure is recorded, and the job begins again after a delay, or it ends.

A restart strategy is what was configured, and never changes. What it begins keeps the account of one run's failures.

Failure enrichers are plugins that add labels to failures, who is to be called, say. A distribution adds one as an entry
point of the group ``headrace.failure_enrichers``; ``jobmanager.failure-enrichers`` names those that a job has.
"""

import logging
import re
import threading
import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from random import Random
from typing import ClassVar, Final, TypeAlias

from headrace.checkpoint.failure_history import FailureHistory
from headrace.checkpoint.manifest import Manifest
from headrace.common import scheduler_options as options
from headrace.common.errors import (
    EXITS,
    ConfigurationError,
    FailureOrigin,
    FunctionRefusedError,
    HeadraceError,
    InfrastructureError,
    JobCancelledError,
    JobExecutionError,
    JobSupersededError,
    UserFunctionError,
    WorkerDiedError,
)
from headrace.common.job_execution_result import JobFailure
from headrace.common.logs import get_logger, with_fields
from headrace.common.masking import without_secrets
from headrace.common.plugins import Plugin, PluginGroup
from headrace.jobmanager.events import EpochFailed, FailuresRecorded, JobEvent
from headrace.time.clock import Clock

logger = get_logger(__name__)

ENRICHER_SECONDS: Final = 5.0
"""The time that all enrichers have together; one that is not done then is left behind, without labels."""


@dataclass(frozen=True, slots=True)
class FailureContext:
    """The context of a failure, beside the error itself.

    Attributes:
        job_id: the job's id.
        job_name: the job's name.
        epoch: the epoch that was at work, or about to be.
        is_final: whether the job ends with it.
        origin: the operator that failed; None when it was none, or is not known.
    """

    job_id: str
    job_name: str
    epoch: int
    is_final: bool
    origin: FailureOrigin | None


class FailureEnricher(Plugin):
    """Adds labels to failures.

    Class attributes:
        output_keys: the labels that it may give; others are left out.
    """

    noun = "failure enricher"
    output_keys: ClassVar[frozenset[str]]

    @abstractmethod
    def process_failure(self, error: BaseException, context: FailureContext) -> Mapping[str, str]:
        """The labels of a failure; called in a thread of its own, which is not waited for very long.

        Args:
            error: what was raised.
            context: what else is known.
        """


FAILURE_ENRICHERS: Final = PluginGroup(
    "headrace.failure_enrichers",
    FailureEnricher,
    {},
)
"""All that are there."""


def load_enrichers(configured: str | None) -> list[FailureEnricher]:
    """The enrichers that a configuration names, with commas or semicolons between them.

    Raises:
        ConfigurationError: when there is none of a name, or two give the same label.
        InvalidProgramError: when one cannot be imported.
    """
    if configured is None:
        return []
    names = [name.strip() for name in re.split("[,;]", configured)]
    enrichers = [FAILURE_ENRICHERS.load(name) for name in dict.fromkeys(names) if name]
    counted = Counter(key for enricher in enrichers for key in enricher.output_keys)
    twice = sorted(key for key, count in counted.items() if count > 1)
    if twice:
        owners = [str(enricher) for enricher in enrichers if twice[0] in enricher.output_keys]
        raise ConfigurationError(
            f"{options.FAILURE_ENRICHERS.key}: {' and '.join(owners)} both give the label {twice[0]!r}: leave one out"
        )
    return enrichers


def labels_of(enrichers: Sequence[FailureEnricher], error: BaseException, context: FailureContext) -> dict[str, str]:
    """The labels that enrichers give a failure; an enricher that fails is logged, and the labels of the others stay."""
    given: dict[FailureEnricher, dict[str, str]] = {}
    started = []
    for enricher in enrichers:
        ask = with_fields(partial(_ask, enricher, error, context, given))
        thread = threading.Thread(target=ask, name=f"headrace-{enricher}", daemon=True)
        thread.start()
        started.append((enricher, thread))
    until = time.monotonic() + ENRICHER_SECONDS
    labels: dict[str, str] = {}
    for enricher, thread in started:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            logger.warning("%s has not labelled a failure within %g s and is left behind", enricher, ENRICHER_SECONDS)
        else:
            labels |= given.get(enricher, {})
    return labels


def _ask(
    enricher: FailureEnricher,
    error: BaseException,
    context: FailureContext,
    given: dict[FailureEnricher, dict[str, str]],
) -> None:
    """Ask one enricher, in a thread that may be left behind."""
    try:
        found = dict(enricher.process_failure(error, context))
        given[enricher] = {str(key): str(text) for key, text in found.items() if key in enricher.output_keys}
    except BaseException:
        logger.warning("%s failed, the failure keeps the labels of others", enricher, exc_info=True)
        return
    if unknown := sorted(set(found) - set(enricher.output_keys), key=str):
        logger.warning("%s gave labels that are not among its output_keys: %s", enricher, unknown)


_MISCONFIGURED: Final = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
"""Errors that a new job cannot recover from; later in its life the same may be a volume that was away for a moment."""


_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 10.0
"""After each checkpoint that is tolerated to fail the job waits twice as long as before: storage has to come back."""


@dataclass(frozen=True, slots=True)
class FailureRules:
    """The rules by which failures may pass.

    Attributes:
        restarts_functions: whether those of user functions may as well.
        most_deaths: so many workers that die in a row in one epoch end the job; None for no such limit.
        tolerable_checkpoints: so many checkpoints in a row may fail before the restart strategy decides.
    """

    restarts_functions: bool = False
    most_deaths: int | None = None
    tolerable_checkpoints: int = 0


class FailureHandler:
    """Judges the failures of one run of a job, wherever they come from, by one account.

    Args:
        next_delay: says how often the job may begin again, and after which delay.
        publish: tells of failures that may pass.
        stop: set when the job is to end.
        cancelled: set when it is to end at once; then epochs fail because of that.
        rules: which failures may pass.
        recorder: keeps failures; None while the job's directory may be another job manager's.
        meanwhile: is called before a wait, and every second of it; None for nothing.

    Attributes:
        is_begun: whether the job has come so far as to plan an epoch; a folder that is missing before is a mistake.
    """

    def __init__(
        self,
        next_delay: "NextDelay",
        publish: Callable[[JobEvent], None],
        stop: threading.Event,
        *,
        cancelled: threading.Event,
        rules: FailureRules,
        recorder: "FailureRecorder | None" = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        self.is_begun = False
        self._delay_after_failure = next_delay
        self._publish = publish
        self._stop = stop
        self._cancelled = cancelled
        self._rules = rules
        self._recorder = recorder
        self._meanwhile = meanwhile
        self._failed_checkpoints = 0
        self._restarted = 0
        self._deaths = 0
        self._epoch_of_deaths = 0

    def epoch_completed(self) -> None:
        """A checkpoint was written: the next one that fails is the first again."""
        self._failed_checkpoints = 0

    def await_restart(self, error: Exception, epoch: int, *, is_of_checkpoint: bool = False) -> bool:
        """Take a failure into account, and wait until the job may begin again.

        Args:
            error: what was raised.
            epoch: the epoch that was at work, or about to be.
            is_of_checkpoint: whether it was its checkpoint that failed.

        Returns:
            False when the job was stopped meanwhile.

        Raises:
            Exception: the failure itself, when it is for good, or one too many.
        """
        if not self._may_pass(error):
            self._record(error, epoch, None)
            raise error
        if isinstance(error, WorkerDiedError):
            error = self._counted(error, epoch)
        delay = self._next_delay(is_of_checkpoint=is_of_checkpoint)
        if delay is None:
            logger.error(
                "epoch %d failed for good: the restart strategy allows no other after %d", epoch, self._restarted
            )
            self._record(error, epoch, None)
            raise error
        if self._stop.is_set():
            level = logging.DEBUG if self._cancelled.is_set() else logging.WARNING
            logger.log(
                level, "epoch %d failed while the job was being stopped, it is run when it goes on: %s", epoch, error
            )
            return False
        self._record(error, epoch, delay)
        self._restarted += 1
        self._publish(EpochFailed(epoch, error, delay))
        return self._waits(delay)

    def _waits(self, delay: float) -> bool:
        """Wait; False when the job was stopped meanwhile."""
        until = time.monotonic() + delay
        while True:
            if self._meanwhile is not None:
                self._meanwhile()
            if self._stop.wait(max(0.0, min(1.0, until - time.monotonic()))) or time.monotonic() >= until:
                return not self._stop.is_set()

    def _record(self, error: Exception, epoch: int, restart_in: float | None) -> None:
        """Keep a failure, unless it is that the job was cancelled, or is another job manager's now."""
        ends_by_others = self._cancelled.is_set() or isinstance(error, JobCancelledError | JobSupersededError)
        if self._recorder is not None and not ends_by_others:
            self._recorder.record(error, epoch, restarts=self._restarted, restart_in=restart_in)

    def _next_delay(self, *, is_of_checkpoint: bool) -> float | None:
        """Return how long to wait; None when that was one failure too many."""
        if is_of_checkpoint and self._failed_checkpoints < self._rules.tolerable_checkpoints:
            self._failed_checkpoints += 1
            doubled = min(self._failed_checkpoints - 1, 10)
            return min(_FIRST_PAUSE_SECONDS * (1 << doubled), _LONGEST_PAUSE_SECONDS)
        return None if self._deaths == self._rules.most_deaths else self._delay_after_failure()

    def _counted(self, error: WorkerDiedError, epoch: int) -> WorkerDiedError:
        """The death of a worker, as the first or a later one in its epoch."""
        self._deaths = self._deaths + 1 if epoch == self._epoch_of_deaths else 1
        self._epoch_of_deaths = epoch
        if self._deaths == 1:
            return error
        counted = error.number(self._deaths)
        counted.__cause__ = error.__cause__
        return counted

    def _may_pass(self, error: Exception) -> bool:
        """Return whether the same may succeed another time.

        What headrace itself finds wrong with programs, records, input and state it would find again. A function of the
        user may depend on a service that was away; a restart strategy that is set says so.
        """
        if isinstance(error, UserFunctionError):
            return self._rules.restarts_functions and not isinstance(error, FunctionRefusedError)
        if isinstance(error, HeadraceError):
            return isinstance(error, InfrastructureError) and not self._is_misconfigured(error.__cause__)
        return isinstance(error, OSError) and not self._is_misconfigured(error)

    def _is_misconfigured(self, error: BaseException | None) -> bool:
        return isinstance(error, _MISCONFIGURED) and not self.is_begun


def root_cause(
    failure: BaseException, name: str, check_owner: Callable[[], None], cancelled: JobCancelledError | None
) -> BaseException:
    """The root cause of a run's end.

    A job manager that was superseded may fail before its next manifest, since its state files are being deleted. And
    what fails while a job is being cancelled fails for that reason.

    Args:
        failure: what was raised.
        name: the job's name.
        check_owner: raises where another job manager has taken over.
        cancelled: the error of a run that was cancelled; None where it was not.
    """
    try:
        check_owner()
    except JobSupersededError as superseded:
        return failure if isinstance(failure, JobSupersededError) else superseded
    except OSError:
        logger.info("whether job %r has been taken over cannot be told", name, exc_info=True)
    if cancelled is not None:
        return cancelled
    if isinstance(failure, EXITS):
        return JobExecutionError(
            f"job {name!r}: the driver's half of a source or a sink raised {type(failure).__name__}: {failure}; it has "
            "to raise an exception instead"
        )
    return failure


def cancellation(name: str, newest: Manifest | None) -> JobCancelledError:
    """The error of a cancelled run."""
    return JobCancelledError(f"job {name!r} was cancelled after epoch {0 if newest is None else newest.epoch}")


class FailureRecorder:
    """Records the failures of one run of a job. Whatever goes wrong with that is logged: it never hides the failure.

    Args:
        history: where they are kept beside the job's checkpoints; None where they go with the job.
        enrichers: what labels them.
        manifest: the newest one; says which job it is.
        now: the clock's reading in milliseconds.
        limit: how many of the latest failures are known.
        publish: is called with them.
    """

    def __init__(
        self,
        history: FailureHistory | None,
        enrichers: Sequence[FailureEnricher],
        manifest: Manifest,
        now: Callable[[], int],
        limit: int,
        publish: Callable[[JobEvent], None],
    ) -> None:
        self._history = history
        self._enrichers = enrichers
        self._manifest = manifest
        self._now = now
        self._recent: deque[JobFailure] = deque(maxlen=limit)
        self._publish = publish
        if history is not None:
            try:
                self._recent.extend(history.read())
            except Exception:
                logger.warning("the job's former failures cannot be read", exc_info=True)
        publish(FailuresRecorded(tuple(self._recent)))

    def record(self, error: Exception, epoch: int, *, restarts: int, restart_in: float | None) -> None:
        """Note a failure.

        Args:
            error: what was raised.
            epoch: the epoch that was at work, or about to be.
            restarts: how often the job has begun again before.
            restart_in: after how many seconds it begins again; None when it does not.
        """
        origin = error.origin if isinstance(error, HeadraceError) else None
        known = self._manifest
        context = FailureContext(known.job_id, known.job_name, epoch, restart_in is None, origin)
        failure = JobFailure(
            number=self._recent[-1].number + 1 if self._recent else 1,
            time=self._now(),
            epoch=epoch,
            error=type(error).__name__,
            message=without_secrets(str(error)),
            restarts=restarts,
            restart_in=restart_in,
            origin=origin,
            labels=labels_of(self._enrichers, error, context),
        )
        if self._history is not None:
            try:
                failure = self._history.add(failure)
            except Exception:
                logger.warning("a failure cannot be kept in the job's history", exc_info=True)
        self._recent.append(failure)
        self._publish(FailuresRecorded(tuple(self._recent)))


NextDelay: TypeAlias = Callable[[], float | None]
"""Takes a failure of a run into account: seconds to wait before the next attempt, or None to give up.

A strategy begins one for each run, with a clock, and with a random generator that is seeded by the job, so that jobs
differ and each repeats itself.
"""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """A number of restarts in the life of a job, all after the same delay.

    Attributes:
        attempts: how many.
        delay: seconds.
    """

    attempts: int
    delay: float

    def begin(self, clock: Clock, chance: Random) -> NextDelay:
        return partial(next, chain(repeat(self.delay, self.attempts), repeat(None)))


NO_RESTART: Final = FixedDelay(0, 0.0)
"""The first fault fails the job."""

_ENDLESS: Final = 2**63 - 1
"""A delay in milliseconds that is longer than any, for where the power is too large for a float."""


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """A delay that grows from failure to failure, and begins anew after a time without one.

    Attributes:
        initial: milliseconds after the first failure; no delay is shorter.
        maximum: the longest delay, in milliseconds.
        multiplier: by how much it grows with each failure.
        jitter: the share of a delay by which it is varied at random, so that not all jobs that wait for the same thing
            come back at the same moment.
        reset_after: when nothing fails for so many milliseconds after a restart, the next failure counts as the first.
        attempts: so many restarts without such a time between them; the failure after them is for good. None for no
            limit.
    """

    initial: int = 1_000
    maximum: int = 60_000
    multiplier: float = 1.5
    jitter: float = 0.1
    reset_after: int = 3_600_000
    attempts: int | None = None

    def begin(self, clock: Clock, chance: Random) -> NextDelay:
        return partial(next, self._delays(clock, chance))

    def _delays(self, clock: Clock, chance: Random) -> Iterator[float | None]:
        failures, restart_at = 0, None
        while True:
            now = clock.now()
            # What fails before the restart belongs to the failure before it.
            if restart_at is None or now > restart_at:
                if restart_at is not None and now - restart_at >= self.reset_after:
                    failures = 0
                restart_at = now + self._delay(failures, chance)
                failures += 1
            is_for_good = self.attempts is not None and failures > self.attempts
            yield None if is_for_good else (restart_at - now) / 1000

    def _delay(self, failures: int, chance: Random) -> int:
        try:
            delay = int(self.initial * self.multiplier**failures)
        except OverflowError:
            delay = _ENDLESS
        spread = int(delay * self.jitter)
        return max(self.initial, min(delay + chance.randint(-spread, spread), self.maximum))


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Any number of attempts, as long as failures do not come too often.

    Attributes:
        max_failures: so many failures within the interval are borne.
        interval: milliseconds.
        delay: seconds after each failure.
    """

    max_failures: int
    interval: int
    delay: float

    def begin(self, clock: Clock, chance: Random) -> NextDelay:
        return partial(next, self._delays(clock))

    def _delays(self, clock: Clock) -> Iterator[float | None]:
        failures: deque[int] = deque()
        while True:
            now = clock.now()
            failures.append(now)
            while failures[0] <= now - self.interval:
                failures.popleft()
            yield self.delay if len(failures) <= self.max_failures else None


RestartStrategy: TypeAlias = FixedDelay | ExponentialDelay | FailureRate
"""Flink's restart strategies, applied to epochs."""
