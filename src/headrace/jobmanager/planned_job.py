"""A job as it is planned for one parallelism, and what plans it for another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.jobmanager.settings import JobSettings
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.messages import JobBlob


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job at one parallelism.

    Attributes:
        plan: its plan.
        blob: the same, as it travels to the tasks.
        settings: how it is run.
    """

    plan: JobPlan
    blob: JobBlob
    settings: JobSettings


class Replan(Protocol):
    """Plans a job anew."""

    def __call__(self, parallelism: int) -> PlannedJob:
        """The job with so many subtasks of each operator that does not say otherwise.

        Raises:
            InvalidProgramError: when it cannot be planned so.
        """
