"""Running an epoch on a runtime, in time and not at all once the job is cancelled, and what its tasks report."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from headrace.common import options
from headrace.common.errors import CheckpointFailedError, InfrastructureError, JobCancelledError, UserFunctionError
from headrace.common.logs import get_logger, with_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.jobmanager.epochs.planner import EpochPlan
    from headrace.jobmanager.runtime import Runtime
    from headrace.plan.job_plan import JobPlan, PlannedOperator
    from headrace.runtime.task.messages import TaskReport


logger = get_logger(__name__)

_LOOK_SECONDS: Final = 0.05


class EpochRun:
    """Runs one epoch.

    A runtime may be told to give up when the query has not really begun, which it does not notice: so it is told again
    and again until it returns.

    Args:
        runtime: where.
        timeout_seconds: an epoch that takes longer is given up.
        cancelled: set when the job is cancelled.
    """

    def __init__(self, runtime: Runtime, timeout_seconds: float, cancelled: threading.Event) -> None:
        self._runtime = runtime
        self._timeout_seconds = timeout_seconds
        self._cancelled = cancelled
        self._over = threading.Event()
        self._is_late = False

    def run(self, planned: EpochPlan) -> list[TaskReport]:
        """The reports of the epoch's tasks.

        Raises:
            JobCancelledError: when the job was cancelled before, or meanwhile.
            CheckpointFailedError: when it took too long.
            InfrastructureError: when it failed.
            OSError: when it failed.
        """
        epoch = planned.context.epoch
        if self._cancelled.is_set():
            raise JobCancelledError(f"epoch {epoch} was not begun")
        watchdog = threading.Thread(target=with_fields(self._watch), name=f"headrace-watchdog-{epoch}", daemon=True)
        watchdog.start()
        try:
            reports = self._runtime.run_epoch(planned.context)
        except InfrastructureError as error:
            if self._is_late:
                raise self._too_late(planned) from error
            raise
        finally:
            self._over.set()
            watchdog.join()  # what it still has to say must not hit the next epoch
        if self._cancelled.is_set():
            raise JobCancelledError(f"epoch {epoch} was given up")
        return reports

    def _watch(self) -> None:
        end = time.monotonic() + self._timeout_seconds
        while not self._over.wait(min(_LOOK_SECONDS, max(0.0, end - time.monotonic()) or _LOOK_SECONDS)):
            self._is_late = time.monotonic() >= end
            if self._is_late or self._cancelled.is_set():
                try:
                    self._runtime.cancel()
                except Exception:
                    logger.warning("interrupting an epoch failed, it is tried again", exc_info=True)

    def _too_late(self, planned: EpochPlan) -> CheckpointFailedError:
        return CheckpointFailedError(
            f"epoch {planned.context.epoch} ({planned.records} records) has not ended within "
            f"{options.CHECKPOINT_TIMEOUT.key} ({self._timeout_seconds:g} s): raise it, or make epochs smaller, "
            f"with {options.EPOCH_FIRST_RECORDS.key} and {options.EPOCH_MAX_RECORDS.key}"
        )


def raise_reported(reports: Sequence[TaskReport]) -> None:
    """Raise what a task reported, the earliest stage first: later ones may only suffer from it.

    Raises:
        HeadraceError: the failure of the user's code or input.
    """
    failed = [report for report in reports if report.error is not None]
    if failed:
        first = min(failed, key=lambda report: (report.stage, report.partition))
        assert first.error is not None
        raise first.error.to_error()


def records_read(plan: JobPlan, reports: Sequence[TaskReport]) -> int:
    """How many records the sources gave; the enumerators' word for it is an estimate."""
    sources = {planned.node.id for planned in plan.operators() if not planned.node.inputs}
    return sum(count for report in reports for node, count in report.records.items() if node in sources)


def committables_by_sink(plan: JobPlan, reports: Sequence[TaskReport]) -> dict[str, list[object]]:
    """What the sinks of all tasks want committed, by uid, in the order of the tasks."""
    found: dict[str, list[object]] = {}
    for report in sorted(reports, key=lambda report: (report.stage, report.partition)):
        for node, committables in report.committables.items():
            found.setdefault(plan.operator(node).uid, []).extend(committables)
    return found


_ADVICE: Final = (
    "process_broadcast_element has to do the same in each, so what it changes may follow from the record and the state "
    "alone, not from the subtask, a clock, chance, fields of the function or the order of a set"
)


def check_broadcast_state(plan: JobPlan, reports: Sequence[TaskReport]) -> None:
    """Refuse an epoch in which subtasks have changed their broadcast state in different ways.

    What is too large for their versions the first subtask alone has written, and after a start all go on with what it
    has.

    Raises:
        UserFunctionError: naming the operator and two of its subtasks.
    """
    digests: dict[tuple[int, int], dict[str, str]] = {}
    for report in reports:
        version = report.state.version
        digests[report.stage, report.partition] = {} if version is None else dict(version.shared)
    for stage in plan.stages:
        for operator in stage.operators:
            if operator.shares_broadcast_state:
                _check(operator, {task: digest for (of, task), digest in digests.items() if of == stage.index})


def _check(operator: PlannedOperator, digests: Mapping[int, Mapping[str, str]]) -> None:
    shared = [digests[task].get(operator.uid) for task in range(operator.parallelism)]
    other = next((task for task, digest in enumerate(shared) if digest != shared[0]), None)
    if other is not None:
        node = operator.node
        raise UserFunctionError(
            f"the broadcast state of operator {node.name!r} (uid {operator.uid}) is not the same in subtasks 0 and "
            f"{other}: {_ADVICE}\n  operator defined at {node.call_site}"
        )
