"""``JobExecutionResult``: what is left of a job that has ended; and the failures that it has had."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.common.errors import FailureOrigin
from headrace.common.job_id import JobID
from headrace.common.notebooks import framed
from headrace.common.public_module import public_module

__all__ = ["JobExecutionResult"]


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """The outcome of a job.

    Attributes:
        job_id: the job.
        net_runtime: how long it ran, in milliseconds.
        accumulators: its counters, by name, summed over all its tasks.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.from_collection(["a", "b"]).print()
        >>> result = env.execute("letters")
        a
        b
        >>> result.get_net_runtime() > 0
        True
    """

    job_id: JobID
    net_runtime: int
    accumulators: Mapping[str, Any] = field(default_factory=dict)

    def get_job_id(self) -> JobID:
        """The job."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return how long the job ran, in milliseconds."""
        return self.net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """A counter's value, or ``None`` when the job has none of that name."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """All counters."""
        return dict(self.accumulators)

    def _repr_html_(self) -> str:
        """Return what notebooks show: the job and its counters."""
        facts = {"job": self.job_id, "ran for": f"{self.net_runtime:,} ms"}
        return framed(type(self).__name__, {**facts, **dict(sorted(self.accumulators.items()))})

    def __str__(self) -> str:
        lines = [f"Program execution finished: job {self.job_id} ran for {self.net_runtime} ms"]
        return "\n".join([*lines, *(f"- {name}: {value}" for name, value in sorted(self.accumulators.items()))])


public_module(__name__)


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
