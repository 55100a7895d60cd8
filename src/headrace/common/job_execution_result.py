"""``JobExecutionResult``: what is left of a job that has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.common.notebooks import framed
from headrace.common.public_module import public_module

if TYPE_CHECKING:
    from headrace.common.job_id import JobID

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
        """How long the job ran, in milliseconds."""
        return self.net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """A counter's value, or ``None`` when the job has none of that name."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """All counters."""
        return dict(self.accumulators)

    def _repr_html_(self) -> str:
        """What notebooks show: the job and its counters."""
        facts = {"job": self.job_id, "ran for": f"{self.net_runtime:,} ms"}
        return framed(type(self).__name__, {**facts, **dict(sorted(self.accumulators.items()))})

    def __str__(self) -> str:
        lines = [f"Program execution finished: job {self.job_id} ran for {self.net_runtime} ms"]
        return "\n".join([*lines, *(f"- {name}: {value}" for name, value in sorted(self.accumulators.items()))])


public_module(__name__)
