"""Operations that are triggered, and whose outcome is requested later."""

from collections.abc import Mapping
from typing import Literal

from headrace.server.wire import model, wire


@model
class TriggerResponse:
    """The id by which the outcome is requested."""

    request_id: str = wire("request-id")


@model
class QueueStatus:
    """The state of an operation: done, or not."""

    id: Literal["IN_PROGRESS", "COMPLETED"]


@model
class FailureCause:
    """An error as Flink's clients read it: as text, and as an object of Java."""

    class_: str = wire("class")
    stack_trace: str = wire("stack-trace")
    serialized_throwable: str = wire("serialized-throwable")


@model
class SavepointInfo:
    """The place of a savepoint, or why there is none."""

    location: str | None
    failure_cause: FailureCause | None = wire("failure-cause")


@model
class CheckpointInfo:
    """The number of a checkpoint, or why there is none."""

    checkpoint_id: int | None = wire("checkpointId")
    failure_cause: FailureCause | None = wire("failureCause")


@model
class OperationInfo:
    """The reason why an operation has failed; none where it has not."""

    failure_cause: FailureCause | None = wire("failure-cause")


@model
class Violation:
    """The first violation of an expectation in an epoch that is held back: operator, reason and record."""

    operator: str
    text: str


@model
class HeldEpoch:
    """The epoch that is held back; none where all are published."""

    epoch: int | None
    violations: list[Violation]


@model
class ReleasedEpoch:
    """The number of an epoch that was released."""

    epoch: int


@model
class SavepointOperation:
    """A savepoint that was triggered."""

    status: QueueStatus
    operation: SavepointInfo | None


@model
class CheckpointOperation:
    """A checkpoint that was triggered."""

    status: QueueStatus
    operation: CheckpointInfo | None


@model
class OtherOperation:
    """A disposal or a change of parallelism that was triggered."""

    status: QueueStatus
    operation: OperationInfo | None


@model
class SavepointTriggerRequest:
    """A savepoint, with which the job ends if it is to be cancelled."""

    target_directory: str | None = wire("target-directory")
    cancel_job: bool | None = wire("cancel-job")
    format_type: str | None = wire("formatType")
    trigger_id: str | None = wire("triggerId")


@model
class StopRequest:
    """The end of a job with a savepoint."""

    target_directory: str | None = wire("targetDirectory")
    drain: bool | None
    format_type: str | None = wire("formatType")
    trigger_id: str | None = wire("triggerId")


@model
class CheckpointTriggerRequest:
    """A checkpoint; of what type makes no difference: each refers to what earlier ones have written."""

    checkpoint_type: str | None = wire("checkpointType")
    trigger_id: str | None = wire("triggerId")


@model
class SavepointDisposalRequest:
    """The place of a savepoint that is to be removed."""

    savepoint_path: str | None = wire("savepoint-path")


@model
class Parallelism:
    """Between how many subtasks and how many."""

    lower_bound: int = wire("lowerBound")
    upper_bound: int = wire("upperBound")


@model
class VertexRequirements:
    """The requirements of a vertex."""

    parallelism: Parallelism


ResourceRequirements = Mapping[str, VertexRequirements]
"""The requirements of all vertices, by id."""
