"""Findings in a job: what needs attention first, each with its cause and what to do."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from headrace.common import wording
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.server.dashboard.job_view import FailureView, JobView, OperatorView, SplitView

PROBLEM: Final = "problem"
ATTENTION: Final = "attention"
NOTE: Final = "note"

_RECENT_MILLIS: Final = 600_000
"""Failures of so long ago are shown."""

_SILENT_MILLIS: Final = 10_000
"""The time after which a split that others wait for counts as silent."""

AHEAD_MILLIS: Final = 10_000
"""The distance to the fastest split, in event time, from which on a split holds the others."""

_LONG_EPOCH_SECONDS: Final = 30.0

_LONG_START_SECONDS: Final = 30.0
_MAY_WAIT: Final = "Its program has not come to execute() yet, Spark starts, or the machine is busy."

_LONG_ENOUGH_SECONDS: Final = 0.5
"""The mean time of epochs from which on it matters where it goes: with little to do epochs are short."""

_LARGE_STATE_BYTES: Final = 64 << 20
_SECONDS_OF_HOUR: Final = 3_600.0
_YOUNG_SECONDS: Final = 600.0
"""A state of so many bytes that doubles within an hour is a finding, but for the first minutes of a run."""

_AT_ITS_LIMIT: Final = 0.8
_LARGE_SHARE: Final = 0.3
_SKEWED: Final = 3.0
"""A subtask that gets so many times the records of the median one is skewed; of few subtasks, twice the mean."""

_SKEWED_OF_FEW: Final = 1.6
_FEWEST_RECORDS: Final = 1_000


_LOG_FOLLOWS: Final = "; its log ends:"
_ERROR: Final = re.compile(r"(?:[\w.]*(?:Error|Exception)|error): ")
"""The line of an error in a log."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at.

    Attributes:
        severity: ``problem``, ``attention`` or ``note``.
        title: what it is, in a few words.
        detail: the cause, and what to do.
        section: the section of the page that shows more.
    """

    severity: str
    title: str
    detail: str
    section: str


def findings(job: JobView) -> list[Finding]:
    """All that stands out in a job, the worst first."""
    found = [finding for look in _LOOKS for finding in look(job)]
    return sorted(found, key=lambda each: (PROBLEM, ATTENTION, NOTE).index(each.severity))


def first_line(text: str) -> str:
    """The first line of a message that has something in it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _begins(job: JobView) -> Iterator[Finding]:
    """A job that has not begun for a while."""
    seconds = (job.now - job.started) / 1000
    if job.status == "CREATED" and seconds > _LONG_START_SECONDS:
        waits = f"{job.waits_for[:1].upper()}{job.waits_for[1:]}." if job.waits_for else _MAY_WAIT
        title = f"The job has not begun for {wording.span(seconds)}"
        yield Finding(NOTE, title, f"{waits} Its log says more.", "failures")


def _failures(job: JobView) -> Iterator[Finding]:
    last = job.failures[0] if job.failures else None
    if job.status == "FAILED":
        detail = first_line(job.error) if last is None else _cause(last)
        yield Finding(PROBLEM, "The job has failed", detail, "failures")
    elif job.is_over or last is None:
        return
    elif job.retry_in is not None:
        again = f"is run again in {wording.span(job.retry_in)}" if job.running_epoch is None else "runs again"
        times = sum(each.epoch == last.epoch for each in job.failures)
        failed = "has failed" if times == 1 else f"has failed {times} times"
        yield Finding(PROBLEM, f"Epoch {last.epoch:,} {failed}, and {again}", _cause(last), "failures")
    else:
        recent = [each for each in job.failures if each.time > job.clock - _RECENT_MILLIS]
        if recent:
            often = "once" if len(recent) == 1 else f"{len(recent)} times"
            yield Finding(
                PROBLEM if len(recent) > 2 else ATTENTION,
                f"The job has begun again {often} in the last 10 minutes",
                f"The last time: {_cause(last)}",
                "failures",
            )


def _cause(failure: FailureView) -> str:
    """The cause of a failure: the error, the operator, the line of the program, the record."""
    where = "" if failure.operator is None else f"“{failure.operator}”, subtask {failure.subtask}: "
    lines = [line.strip() for line in failure.message.splitlines() if line.strip()]
    cause = lines[1] if failure.operator is not None and len(lines) > 1 else f"{failure.error}: {_reason(lines)}"
    at = next((f", {line}" for line in lines if line.startswith("at ")), "")
    record = "" if failure.record is None else f"; the record is {failure.record}"
    return f"{where}{cause}{at}{record}"


def _reason(lines: Sequence[str]) -> str:
    """The first line of a message; of a process that has ended, with the error that its log ends with."""
    first, log = "".join(lines[:1]), lines[1:]
    if not first.endswith(_LOG_FOLLOWS):
        return first
    error = next((line for line in reversed(log) if _ERROR.match(line)), "see its log")
    return f"{first.removesuffix(_LOG_FOLLOWS)}: {error}"


def _held(job: JobView) -> Iterator[Finding]:
    """An epoch that waits before anything of it is published."""
    if job.held_epoch is not None:
        violation = "".join(f"{_violation(text)}. " for text in job.held_for[:1])
        detail = f"{violation}Release publishes it; Cancel drops it, and the job runs it again when it goes on."
        title = f"Epoch {job.held_epoch:,} is held back: records of it violate expectations"
        yield Finding(PROBLEM, title, detail, "losses")


def _violation(text: str) -> str:
    """The operator, the expectation and the record of a violation, in one line."""
    lines = (line.strip() for line in text.splitlines())
    return "; ".join(line for line in lines if line and not line.startswith("operator defined at"))


def _epochs(job: JobView) -> Iterator[Finding]:
    """An epoch that does not end, and time that goes elsewhere than to operators."""
    if job.running_epoch is not None and job.held_epoch is None and not job.is_over:
        seconds = (job.now - job.running_since) / 1000
        usual = median(each.reading + each.shuffling + each.operating for each in job.epochs) if job.epochs else 0.0
        if seconds > max(_LONG_EPOCH_SECONDS, 5 * usual):
            detail = _long_epoch(job, usual)
            yield Finding(PROBLEM, f"Epoch {job.running_epoch:,} runs for {wording.span(seconds)}", detail, "epochs")
    total = sum(map(_seconds, job.epochs))
    if len(job.epochs) < 5 or total < _LONG_ENOUGH_SECONDS * len(job.epochs):
        return
    shares = {
        "committing": sum(each.committing for each in job.epochs) / total,
        "checkpointing": sum(each.checkpointing for each in job.epochs) / total,
        "planning": sum(each.planning for each in job.epochs) / total,
    }
    for what, share in shares.items():
        if share > _LARGE_SHARE:
            yield Finding(ATTENTION, f"{share:.0%} of the time goes to {_PARTS[what]}", _ADVICE[what], "epochs")


def _long_epoch(job: JobView, usual: float) -> str:
    """The reason why an epoch may take long, and its place if that is known."""
    lasting = f"The last ones took {wording.span(usual)}. " if job.epochs else "It is the first one of this run. "
    if job.at_work:
        more = f", and {len(job.at_work) - 1} more" if len(job.at_work) > 1 else ""
        return f"{lasting}It is in a function of the program, {job.at_work[0]}{more}: that is slow, waits, or is stuck."
    if job.runtime.startswith("Spark"):
        return (
            f"{lasting}A function waits for a service, a task is stuck, or the cluster has no room"
            f"{'' if job.epochs else ', or still starts executors'}: Spark's UI says where."
        )
    return (
        f"{lasting}No function of the program is at work: much is read at once, storages are slow, or the machine is "
        "busy. A thread dump (REST: /jobmanager/thread-dump) of the job's process says more."
    )


_PARTS: Final = {
    "committing": "waiting for sinks",
    "checkpointing": "checkpoints",
    "planning": "planning",
}
"""The names of the parts of an epoch."""

_ADVICE: Final = {
    "committing": "Sinks commit more slowly than epochs end, and hold the job back: look at what is behind the sink "
    "with the most pending commits, or make epochs longer.",
    "checkpointing": "The storage of checkpoints is slow, or epochs are short: raise execution.checkpointing.interval.",
    "planning": "Sources take long to say what there is: a folder with many files, or a broker that is slow to answer.",
}
"""Advice for when they take much of the time."""


def _seconds(epoch: object) -> float:
    parts = ("planning", "reading", "shuffling", "operating", "checkpointing", "committing")
    return sum(float(getattr(epoch, part)) for part in parts)


def _silent_splits(job: JobView) -> Iterator[Finding]:
    """A split that brings nothing, and holds the event time of the job."""
    if job.is_over:
        return
    counting = [each for each in job.splits if not each.is_idle and each.watermark is not None]
    slowest = next((each for each in counting if each.is_slowest), None)
    if slowest is None:
        return
    reached = [watermark for each in counting if (watermark := each.watermark) is not None]
    holding = [each for each in counting if _is_silent(each, job) and each.watermark == slowest.watermark]
    ahead = max(reached) - (slowest.watermark if slowest.watermark is not None else MIN_WATERMARK)
    if not holding or ahead < AHEAD_MILLIS:
        return
    splits = ", ".join(f"{each.source}[{each.split_id}]" for each in holding[:3])
    more = f" and {len(holding) - 3} more" if len(holding) > 3 else ""
    silence = "has brought nothing in this run"
    if slowest.read_at is not None:
        silence = f"has brought nothing for {wording.span((job.clock - slowest.read_at) / 1000)}"
    timeout = slowest.idle_timeout
    advice = (
        "Its watermark strategy has no idleness: .with_idleness(…) lets the others go on without it."
        if timeout is None
        else f"It becomes idle after {wording.span(timeout / 1000)}, and then the others go on without it."
    )
    severity = PROBLEM if timeout is None else ATTENTION
    title = f"Event time stands still: {splits}{more} {silence}"
    yield Finding(severity, title, f"Windows and timers of all other splits wait for it. {advice}", "event-time")


def _is_silent(split: SplitView, job: JobView) -> bool:
    since = job.started if split.read_at is None else split.read_at
    return not split.pending_records and not split.is_held_back and job.clock - since > _SILENT_MILLIS


def _operators(job: JobView) -> Iterator[Finding]:
    """Operators at their limit, and those of which one subtask has most of the work."""
    if job.is_over:
        return
    busiest = max((each for each in job.operators if each.busy), key=lambda each: each.busy or 0.0, default=None)
    for operator in job.operators:
        skew = _skew(operator)
        if skew is not None:
            yield _skewed(operator, skew)
        elif operator is busiest and (operator.busy or 0.0) >= _AT_ITS_LIMIT:
            behind = any((each.back_pressured or 0.0) > _LARGE_SHARE for each in job.operators)
            waiting = " Operators before it wait for it." if behind else ""
            yield Finding(
                ATTENTION,
                f"“{operator.name}” is at its limit: {operator.busy:.0%} busy",
                f"It decides how fast the job is.{waiting} A higher parallelism, or less work per record, helps.",
                "graph",
            )


def _skewed(operator: OperatorView, skew: tuple[int, float]) -> Finding:
    subtask, share = skew
    return Finding(
        PROBLEM if (operator.busy or 0.0) >= _AT_ITS_LIMIT else ATTENTION,
        f"Skew: subtask {subtask} of “{operator.name}” gets {share:.0%} of the records",
        f"The {operator.parallelism} subtasks would get {1 / operator.parallelism:.0%} each. A few keys have most of "
        "the records; more subtasks do not help. Aggregate before (two phases), or add something to the key.",
        "operators",
    )


def _skew(operator: OperatorView) -> tuple[int, float] | None:
    """The subtask that gets far more than others, and its share of the records; None where none does."""
    numbers = [each.rate_in * 60 for each in operator.subtasks]
    if sum(numbers) < _FEWEST_RECORDS:
        numbers = [float(each.records_in) for each in operator.subtasks]
    total, subtasks = sum(numbers), len(numbers)
    if subtasks < 2 or operator.stage == 0 or total < _FEWEST_RECORDS:
        return None
    greatest = max(numbers)
    limit = _SKEWED * median(numbers) if subtasks > 3 else _SKEWED_OF_FEW * total / subtasks
    return (numbers.index(greatest), greatest / total) if greatest > limit else None


def _growing_state(job: JobView) -> Iterator[Finding]:
    """A state that would be twice as large within the hour."""
    if job.is_over:
        return
    for state in job.states:
        growth = state.growth or 0.0
        if state.bytes >= _LARGE_STATE_BYTES and growth * _SECONDS_OF_HOUR >= state.bytes:
            yield Finding(
                ATTENTION if job.seconds > _YOUNG_SECONDS else NOTE,
                f"State grows: “{state.name}” of “{state.operator}” has {wording.size(state.bytes)}, and "
                f"{wording.size(round(growth * 60))} more each minute",
                "A job that has just begun fills its state. Else keys come and none goes: give the state a time to "
                "live, or what is stored for a key bounds.",
                "state",
            )


def _backlog(job: JobView) -> Iterator[Finding]:
    pending = [each for each in job.trend.pending[-20:] if each is not None]
    if job.is_over or len(pending) < 10:
        return
    if min(pending[-3:]) > max(pending[:3]) and pending[-1] > max(1_000.0, 10 * job.rate):
        yield Finding(
            ATTENTION,
            f"The job falls behind: {wording.count(int(pending[-1]), 'record')} wait to be read",
            "More comes in than is read: look which operator is busiest, and if time goes to sinks or checkpoints.",
            "throughput",
        )


def _losses(job: JobView) -> Iterator[Finding]:
    """Records that are dropped or rejected, and lately more of them."""
    for what, rates, total in (
        ("late record", job.trend.late, job.late),
        ("record that cannot be read or written", job.trend.rejected, job.rejected),
    ):
        recent = [rate for rate in rates[-20:] if rate]
        if total and recent:
            are = _plural(total, what)
            detail = (
                "A window had fired and gone before they came: allow lateness, or a longer bound of disorder, or send "
                "them to a side output."
                if what.startswith("late")
                else "They are sent to dead letters: the output of the tag has each with the reason."
            )
            verb = "dropped" if what.startswith("late") else "set aside"
            yield Finding(ATTENTION, f"{are} {verb}, some of them just now", detail, "losses")


def _plural(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    noun, that, rest = what.partition(" that ")
    return f"{number:,} {noun}s{that}{rest}" if that else f"{number:,} {what}s"


def _waiting(job: JobView) -> Iterator[Finding]:
    """Nothing comes, or a source still has no event time."""
    if job.is_over or job.watermark is None:
        return
    if job.watermark == MIN_WATERMARK and job.completed > 3 and any(each.watermark is not None for each in job.splits):
        missing = [f"{s.source}[{s.split_id}]" for s in job.splits if s.watermark == MIN_WATERMARK and not s.is_idle]
        title = f"No event time yet: nothing with a timestamp has come from {', '.join(missing[:3]) or 'a source'}"
        yield Finding(
            NOTE, title, "Windows of event time fire when all splits that count have brought records.", "event-time"
        )
    if job.watermark == MAX_WATERMARK:
        yield Finding(
            NOTE, "The input has come to its end", "All windows and timers of event time have fired.", "event-time"
        )


def _commits(job: JobView) -> Iterator[Finding]:
    for sink in job.sinks:
        if (sink.pending_commits or 0) > 2 and not job.is_over:
            yield Finding(
                ATTENTION,
                f"“{sink.name}” has the output of {sink.pending_commits} epochs to commit",
                "What it writes to is slow, or away: readers see nothing newer until it is committed.",
                "sinks",
            )


_LOOKS: Final[Sequence[Callable[[JobView], Iterable[Finding]]]] = (
    _held,
    _begins,
    _failures,
    _epochs,
    _silent_splits,
    _operators,
    _commits,
    _growing_state,
    _backlog,
    _losses,
    _waiting,
)
