"""All that the page of a checkpoint shows: its parts, its place, and the state of each operator in it."""

from __future__ import annotations

from typing import Final

from headrace.common.configuration import Configuration
from headrace.jobmanager.events import EpochStatistics
from headrace.jobmanager.status import JobSnapshot
from headrace.plan.job_plan import PlannedOperator
from headrace.server.dashboard.job_view import EpochView
from headrace.server.dashboard.snapshot_view import epoch_view
from headrace.server.errors import not_found
from headrace.server.handlers.checkpoints import is_discarded, place_of, state_sizes
from headrace.server.wire import model

_LONGEST_NUMBER: Final = 18


@model
class OperatorStateView:
    """The state of an operator in a checkpoint.

    Attributes:
        uid: the operator.
        name: its name.
        bytes: the size of its state.
        change: by how much that is more than in the checkpoint before; None where that is not known.
        by_subtask: its size in each subtask.
    """

    uid: str
    name: str
    bytes: int
    change: int | None
    by_subtask: tuple[int, ...]


@model
class CheckpointView:
    """A checkpoint of a job.

    Attributes:
        epoch: the epoch that ended in it.
        place: where it is; empty for a temporary folder.
        is_kept: whether it is still there: newer ones take the place of older ones.
        before: the number of the one before; None where that is not known.
        after: the number of the next one; None for the newest one.
        change: by how many bytes all state is more than in the one before; None where that is not known.
        operators: the operators that have state, those with most of it first.
    """

    epoch: EpochView
    place: str
    is_kept: bool
    before: int | None
    after: int | None
    change: int | None
    operators: tuple[OperatorStateView, ...]


def checkpoint_view(job: JobSnapshot, configuration: Configuration, number: str) -> CheckpointView:
    """The view of a checkpoint.

    Args:
        job: what is known of its job.
        configuration: what that was submitted with.
        number: the number of the checkpoint, as an address has it.

    Raises:
        RestError: when nothing is known of it.
    """
    index = next((i for i, each in enumerate(job.epochs) if str(each.epoch) == number[:_LONGEST_NUMBER]), None)
    if index is None:
        newest = f", and {job.epochs[-1].epoch} is the newest" if job.epochs else ""
        raise not_found(
            f"nothing is known of checkpoint {number[:_LONGEST_NUMBER]}: only the last ones are kept{newest}"
        )
    epoch = job.epochs[index]
    before = job.epochs[index - 1] if index else None
    after = job.epochs[index + 1].epoch if index + 1 < len(job.epochs) else None
    planned = () if job.plan is None else tuple(job.plan.operators())
    states = (_state(each, epoch, before) for each in planned if each.uid in epoch.task_sizes)
    return CheckpointView(
        epoch=epoch_view(epoch),
        place=place_of(epoch.epoch, configuration) or "",
        is_kept=not is_discarded(epoch, job, configuration),
        before=None if before is None else before.epoch,
        after=after,
        change=None if before is None else epoch.state_bytes - before.state_bytes,
        operators=tuple(sorted(states, key=lambda each: -each.bytes)),
    )


def _state(planned: PlannedOperator, epoch: EpochStatistics, before: EpochStatistics | None) -> OperatorStateView:
    sizes = state_sizes(planned, epoch)
    earlier = None if before is None else sum(before.task_sizes.get(planned.uid, ()))
    change = None if earlier is None else sum(sizes) - earlier
    return OperatorStateView(planned.uid, planned.node.name, sum(sizes), change, tuple(sizes))
