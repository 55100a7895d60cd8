"""Whether broadcast state is the same in all subtasks, as the digests in their versions say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.errors import UserFunctionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.plan.job_plan import JobPlan, PlannedOperator
    from headrace.runtime.task.messages import TaskReport

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
