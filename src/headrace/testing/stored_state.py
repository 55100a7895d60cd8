"""``StoredState`` and checkpoints of a driven job: what its operators hold between two epochs."""

import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headrace.checkpoint.manifest import Manifest
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.connectors.source import KeptClients
from headrace.jobmanager.recovery import partition_contexts
from headrace.operators.base import Operator, OperatorContext
from headrace.operators.pattern.pattern_operator import PatternOperator
from headrace.operators.pattern.stored_matches import StoredMatch
from headrace.operators.timer_service import TimeDomain
from headrace.operators.window.general.window_operator import WindowOperator
from headrace.operators.window.stored_windows import StoredWindow, WindowStateReader
from headrace.plan.job_plan import JobPlan, PlannedOperator
from headrace.runtime.task.messages import SerializedJob
from headrace.runtime.task.operator_chain import open_state, operator_context, task_parameters
from headrace.state.protocols import StateKind


class PendingTimer(NamedTuple):
    """A timer that has not fired yet.

    Attributes:
        time: when it is due, in milliseconds.
        time_domain: of which time.
        key: its key.
        window: the window that it is for; None for those of process functions.

    Examples:
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.testing import JobHarness
        >>> class Reminder(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5_000)
        ...         return []
        >>> def job(harness):
        ...     orders = harness.add_source("orders", str).key_by(lambda order: order)
        ...     harness.add_sink("reminders", orders.process(Reminder(), output_type=str).uid("reminder"))
        >>> with JobHarness(job) as harness:
        ...     harness.push("orders", "tea", timestamp=1_000)
        ...     harness.run_epoch()
        ...     [timer] = harness.timers("reminder")
        >>> timer.time, timer.time_domain.name, timer.key
        (6000, 'EVENT_TIME', 'tea')
    """

    time: int
    time_domain: TimeDomain
    key: Any
    window: Any = None


Found = TypeVar("Found", StoredWindow, StoredMatch, PendingTimer)


_Subtask = tuple[Operator, OperatorContext, int]
"""The operator of one subtask, which is not open, its context, and its watermark, at the beginning of an epoch."""


class StoredState:
    """Reads the state that a manifest names, without changing it; functions of the user are not opened.

    Args:
        blob: the job.
        manifest: the end of the epoch that is looked at.
    """

    def __init__(self, blob: SerializedJob, manifest: Manifest) -> None:
        self._blob = blob
        self._manifest = manifest
        self._plan: JobPlan = pickle.loads(blob.plan)

    def windows(self, uid: str) -> list[StoredWindow]:
        """The windows of an operator, by their last timestamp and key.

        Raises:
            InvalidProgramError: when there is no such operator, or it has no windows.
        """
        planned = self._operator(uid)
        found: list[StoredWindow] = []
        for operator, context, watermark in self._subtasks(planned):
            if not isinstance(operator, WindowStateReader):
                raise InvalidProgramError(f"operator {planned.label} has no windows")
            found.extend(operator.held_windows(context, watermark))
        return _by_time_and_key(found, lambda held: (held.window.max_timestamp(), held.key))

    def partial_matches(self, uid: str) -> list[StoredMatch]:
        """The partial matches of an operator, by their first timestamp and key.

        Raises:
            InvalidProgramError: when there is no such operator, or it looks for no pattern.
        """
        planned = self._operator(uid)
        found: list[StoredMatch] = []
        for operator, context, _ in self._subtasks(planned):
            if not isinstance(operator, PatternOperator):
                raise InvalidProgramError(f"operator {planned.label} looks for no pattern")
            found.extend(operator.held_matches(context))
        return _by_time_and_key(found, lambda held: (held.start, held.key))

    def timers(self, uid: str) -> list[PendingTimer]:
        """The timers of an operator that have not fired, by time and key.

        Raises:
            InvalidProgramError: when there is no such operator, or it can have no timers.
        """
        planned = self._operator(uid)
        found = [timer for subtask in self._subtasks(planned) for timer in _timers(*subtask[:2])]
        return _by_time_and_key(found, lambda timer: (timer.time, timer.key))

    def _operator(self, uid: str) -> PlannedOperator:
        operators = {planned.uid: planned for planned in self._plan.operators()}
        keyed = {known: planned for known, planned in operators.items() if StateKind.KEYED in planned.state_kinds}
        if uid in keyed:
            return keyed[uid]
        if uid in operators:
            raise InvalidProgramError(f"operator {operators[uid].label} has neither keys nor windows nor timers")
        known = ", ".join(map(repr, keyed)) or "none"
        raise InvalidProgramError(f"the job has no operator with the uid {uid!r}; those with keys are {known}")

    def _subtasks(self, planned: PlannedOperator) -> Iterator[_Subtask]:
        starts = partition_contexts(self._manifest, self._plan)
        for number in range(planned.parallelism):
            start = starts[planned.stage, number]
            watermark = start.event_time_of(planned)
            states = open_state(self._plan, planned.stage, number, self._blob.state, start)
            try:
                context = operator_context(self._plan, planned, number, states)
                context.state.begin_epoch(MIN_WATERMARK, self._manifest.processing_time)
                task = task_parameters(self._plan, self._blob, number, KeptClients())
                yield planned.create_operator(task), context, watermark
            finally:
                states.close()


def _timers(operator: Operator, context: OperatorContext) -> Iterator[PendingTimer]:
    """Lets all timers come due, which is not stored."""
    timers = context.state.timers
    for domain, queue in ((TimeDomain.EVENT_TIME, timers.event), (TimeDomain.PROCESSING_TIME, timers.processing)):
        for timer in queue.pop_due(MAX_WATERMARK):
            window = None
            if timer.namespace is not None and isinstance(operator, WindowOperator):
                window = operator.window_of(timer.namespace)
            yield PendingTimer(timer.time, domain, timer.entry.key, window)


def _by_time_and_key(found: Iterable[Found], place: Callable[[Found], tuple[int, object]]) -> list[Found]:
    """In an order that does not depend on the parallelism; keys that cannot be compared by what they look like."""
    each = list(found)
    try:
        return sorted(each, key=place)
    except TypeError:
        return sorted(each, key=lambda one: (place(one)[0], repr(place(one)[1])))


class Checkpoint:
    """The state of a job at the end of an epoch, to start other harnesses from; it can be used any number of times.

    Args:
        source: the job's checkpoint directory.

    Attributes:
        directory: a copy of it, which is removed with this object: keep the checkpoint as long as its folder is used.

    Examples:
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     words = harness.add_source("words", str)
        ...     harness.add_sink("longest", words.key_by(len).max(0).uid("longest"))
        >>> with JobHarness(job) as harness:
        ...     harness.push("words", "tea")
        ...     checkpoint = harness.checkpoint()
        >>> with JobHarness(job, restore=checkpoint) as harness:
        ...     harness.push("words", "pie")
        ...     harness.run_epoch()
        ...     print(harness.results("longest"))
        ['tea']
    """

    def __init__(self, source: Path) -> None:
        self.directory = temporary_folder(self)
        shutil.copytree(source, self.directory, dirs_exist_ok=True)


def temporary_folder(owner: object) -> Path:
    """A folder that goes at the latest with its owner."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-test-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder
