"""A failure of a job, as its history keeps it, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FailureOrigin:
    """What a function of the user was at when it failed.

    Attributes:
        operator: the name of its operator.
        uid: the uid of that.
        subtask: which subtask.
        record: the record, shortened; None when it had none.
        executor: the host and the process; None until the failure leaves its task.

    Examples:
        >>> from headrace.common import FailureOrigin
        >>> FailureOrigin("parse", "parse", 0, record="'12,x'").record
        "'12,x'"
    """

    operator: str
    uid: str
    subtask: int
    record: str | None = None
    executor: str | None = None


@dataclass(frozen=True, slots=True)
class JobFailure:
    """One failure in the life of a job.

    Attributes:
        number: how many failures the job has had with this one, in all of its runs.
        time: when it was noticed, in milliseconds of the job's clock.
        epoch: the epoch that was at work, or about to be.
        error: the name of the error's class.
        message: what it says.
        restarts: how often this run of the job had begun again before.
        restart_in: after how many seconds the job begins again; None when it does not.
        origin: the operator that failed; None when it was none, or is not known.
        labels: what failure enrichers have found.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.from_collection([1, 0]).map(lambda number: 1 // number).name("divide").print()
        >>> client = env.execute_async("divisions")
        >>> _ = client.get_job_execution_result().exception()
        >>> failure = client.get_exception_history().result()[-1]
        >>> failure.error, failure.origin.operator, failure.origin.record, failure.restart_in
        ('UserFunctionError', 'divide', '0', None)
    """

    number: int
    time: int
    epoch: int
    error: str
    message: str
    restarts: int = 0
    restart_in: float | None = None
    origin: FailureOrigin | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
