"""Operations that change a job: savepoints, checkpoints, stop, cancel, rescale; and the disposal of savepoints.

Each is triggered, and its outcome requested later, but for cancelling, which is done at once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import JobExecutionError
from headrace.common.logs import get_logger
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import SavepointFormat
from headrace.server.errors import bad_request, conflict, failure_cause
from headrace.server.jobs import ServedJob
from headrace.server.models.cluster import Empty
from headrace.server.models.operations import (
    CheckpointInfo,
    CheckpointOperation,
    HeldEpoch,
    OperationInfo,
    OtherOperation,
    Parallelism,
    QueueStatus,
    ReleasedEpoch,
    SavepointInfo,
    SavepointOperation,
    TriggerResponse,
    VertexRequirements,
    Violation,
)
from headrace.server.requests import RestRequest
from headrace.server.vertices import JobVertex, vertices_of
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

_FORMATS: Final[dict[str, SavepointFormat]] = {"CANONICAL": "canonical", "NATIVE": "native", "DEFAULT": "canonical"}

_CHECKPOINT_TYPES: Final = ("CONFIGURED", "FULL", "INCREMENTAL")

_IN_PROGRESS: Final = QueueStatus("IN_PROGRESS")
_COMPLETED: Final = QueueStatus("COMPLETED")

_SAVEPOINT: Final = "savepoint"
_CHECKPOINT: Final = "checkpoint"
_RESCALING: Final = "rescaling"
_DISPOSAL: Final = "disposal"


def trigger_savepoint(request: RestRequest) -> TriggerResponse:
    """Have a savepoint taken."""
    control, directory, kind = request.job().control, request.text("target-directory"), _format(request)
    if request.flag("cancel-job"):
        return _triggered(request, _SAVEPOINT, partial(control.stop_with_savepoint, False, directory, kind))
    return _triggered(request, _SAVEPOINT, partial(control.trigger_savepoint, directory, kind))


def stop_with_savepoint(request: RestRequest) -> TriggerResponse:
    """Have a savepoint taken with which the job ends."""
    control, directory, kind = request.job().control, request.text("targetDirectory"), _format(request)
    stop = partial(control.stop_with_savepoint, request.flag("drain"), directory, kind)
    return _triggered(request, _SAVEPOINT, stop)


def savepoint_status(request: RestRequest) -> SavepointOperation:
    """Tell the place of a savepoint, once it is there."""
    outcome = _outcome(request, _SAVEPOINT)
    if not outcome.done():
        return SavepointOperation(_IN_PROGRESS, None)
    error = outcome.exception()
    info = SavepointInfo(outcome.result(), None) if error is None else SavepointInfo(None, failure_cause(error))
    return SavepointOperation(_COMPLETED, info)


def trigger_checkpoint(request: RestRequest) -> TriggerResponse:
    """Have an epoch completed at once."""
    kind = request.text("checkpointType") or "CONFIGURED"
    if kind not in _CHECKPOINT_TYPES:
        raise bad_request(f"checkpointType: one of {', '.join(_CHECKPOINT_TYPES)}, not {kind!r}")
    return _triggered(request, _CHECKPOINT, request.job().control.trigger_checkpoint)


def checkpoint_status(request: RestRequest) -> CheckpointOperation:
    """Tell the number of a checkpoint, once it is there."""
    outcome = _outcome(request, _CHECKPOINT)
    if not outcome.done():
        return CheckpointOperation(_IN_PROGRESS, None)
    error = outcome.exception()
    info = CheckpointInfo(outcome.result(), None) if error is None else CheckpointInfo(None, failure_cause(error))
    return CheckpointOperation(_COMPLETED, info)


def cancel(request: RestRequest) -> Empty:
    """Give up the epoch that runs, and end the job."""
    mode = request.query.get("mode", "cancel")
    if mode != "cancel":
        raise bad_request(f"mode: cancel, not {mode!r}; jobs/:jobid/stop stops a job with a savepoint")
    return _cancelled(request, request.job())


def cancel_application(request: RestRequest) -> Empty:
    """Give up the epoch that runs, and end the job of an application."""
    return _cancelled(request, request.service.jobs.get(request.parameters["applicationid"]))


def _cancelled(request: RestRequest, job: ServedJob) -> Empty:
    snapshot = job.snapshot()
    if snapshot.status.is_terminal_state():
        raise conflict(f"Job {snapshot.job_id} has ended: it is {snapshot.status.name}")
    job.record_cancel()
    request.service.operations.do(job.control.cancel)
    return Empty()


def held_epoch(request: RestRequest) -> HeldEpoch:
    """Tell which epoch is held back since records of it violate expectations, if one is."""
    held = request.job().snapshot().held
    if held is None:
        return HeldEpoch(None, [])
    return HeldEpoch(held.epoch, [Violation(uid, text) for uid, text in held.violations.items()])


def release_epoch(request: RestRequest) -> ReleasedEpoch:
    """Publish the epoch that is held back."""
    try:
        return ReleasedEpoch(request.job().control.release_epoch())
    except JobExecutionError as error:
        raise conflict(str(error)) from error


def rescale(request: RestRequest) -> TriggerResponse:
    """Have the job go on at another parallelism."""
    parallelism = request.number("parallelism", 0)
    if not parallelism:
        raise bad_request("parallelism: expected a number of subtasks, such as ?parallelism=4")
    return _triggered(request, _RESCALING, partial(request.job().control.rescale, parallelism))


def rescaling_status(request: RestRequest) -> OtherOperation:
    """Tell whether the job goes on at another parallelism."""
    return _other(_outcome(request, _RESCALING))


def requirements(request: RestRequest) -> dict[str, VertexRequirements]:
    """Return between how many subtasks and how many each vertex may have."""
    return {
        vertex.id: VertexRequirements(Parallelism(1, vertex.planned.parallelism))
        for vertex in vertices_of(request.job().plan())
    }


def require(request: RestRequest) -> Empty:
    """Have the job go on at the requested upper bound, one for all vertices that the program leaves open."""
    job = request.job()
    plan = job.plan()
    left_open = [each for each in vertices_of(plan) if each.planned.parallelism == plan.settings.parallelism]
    wanted = {_upper_bound(request, vertex) for vertex in left_open}
    if len(wanted) != 1:
        raise bad_request(
            f"the vertices for which the program sets no parallelism have one in common, so upperBound has to be the "
            f"same for all of them, not {', '.join(map(str, sorted(wanted))) or 'nothing'}"
        )
    _triggered(request, _RESCALING, partial(job.control.rescale, wanted.pop()))
    return Empty()


def _upper_bound(request: RestRequest, vertex: JobVertex) -> int:
    found = request.body.get(vertex.id)
    bounds = found.get("parallelism") if isinstance(found, dict) else None
    upper = bounds.get("upperBound") if isinstance(bounds, dict) else None
    if not isinstance(upper, int) or isinstance(upper, bool) or upper < 1:
        raise bad_request(
            f'{vertex.id}: expected {{"parallelism": {{"lowerBound": 1, "upperBound": 4}}}}, not {found!r}'
        )
    return upper


def trigger_disposal(request: RestRequest) -> TriggerResponse:
    """Have a savepoint removed."""
    place = request.text("savepoint-path")
    if not place or not place.strip():
        raise bad_request("savepoint-path: expected the place of a savepoint")
    open_ = partial(open_storage, options=request.service.jobs.storage_options())

    def work() -> None:
        kept = dispose(open_(place), open_)
        if kept:
            logger.info("%s is disposed of; %s", place, kept)

    return TriggerResponse(request.service.operations.run(_DISPOSAL, "", request.text("triggerId"), work))


def disposal_status(request: RestRequest) -> OtherOperation:
    """Tell whether a savepoint is removed."""
    return _other(request.service.operations.get(_DISPOSAL, "", request.parameters["triggerid"]))


def _triggered(request: RestRequest, kind: str, begin: Callable[[], CompletableFuture[Any]]) -> TriggerResponse:
    job = request.job().snapshot()
    if job.status.is_terminal_state():
        raise conflict(f"Job {job.job_id} has ended: it is {job.status.name}")
    trigger = request.service.operations.begin(kind, job.job_id, request.text("triggerId"), begin)
    return TriggerResponse(trigger)


def _outcome(request: RestRequest, kind: str) -> CompletableFuture[Any]:
    return request.service.operations.get(kind, request.parameters["jobid"], request.parameters["triggerid"])


def _other(outcome: CompletableFuture[Any]) -> OtherOperation:
    if not outcome.done():
        return OtherOperation(_IN_PROGRESS, None)
    error = outcome.exception()
    return OtherOperation(_COMPLETED, OperationInfo(None if error is None else failure_cause(error)))


def _format(request: RestRequest) -> SavepointFormat:
    kind = request.text("formatType") or "CANONICAL"
    if kind not in _FORMATS:
        raise bad_request(f"formatType: one of {', '.join(_FORMATS)}, not {kind!r}")
    return _FORMATS[kind]
