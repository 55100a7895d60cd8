"""Whether broadcast state is the same in all subtasks, as the names of what they have to share say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.errors import UserFunctionError
from headrace.state.state_file import SharedName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.plan.job_plan import JobPlan, PlannedOperator
    from headrace.runtime.task.messages import TaskReport

_ADVICE: Final = (
    "process_broadcast_element has to do the same in each, so what it changes may follow from the record and the state "
    "alone, not from the subtask, a clock, chance, fields of the function or the order of a set"
)


def check_broadcast_state(plan: JobPlan, reports: Sequence[TaskReport]) -> None:
    """Refuse an epoch in which subtasks have changed their broadcast state in different ways.

    The first subtask alone has written what is new, so there would be no file for the others to go on from.

    Raises:
        UserFunctionError: naming the operator and two of its subtasks.
    """
    files: dict[tuple[int, int], tuple[str, ...]] = {}
    for report in reports:
        version = report.state.version
        files[report.stage, report.partition] = () if version is None else version.files
    for stage in plan.stages:
        for operator in stage.operators:
            if operator.shares_broadcast_state:
                _check(operator, {task: names for (of, task), names in files.items() if of == stage.index})


def _check(operator: PlannedOperator, files: Mapping[int, Iterable[str]]) -> None:
    owner = SharedName.owner_of(operator.uid)
    shared = {task: {name for name in files[task] if _is_of(name, owner)} for task in range(operator.parallelism)}
    other = next((task for task, names in shared.items() if names != shared[0]), None)
    if other is not None:
        node = operator.node
        raise UserFunctionError(
            f"the broadcast state of operator {node.name!r} (uid {operator.uid}) is not the same in subtasks 0 and "
            f"{other}: {_ADVICE}\n  operator defined at {node.call_site}"
        )


def _is_of(name: str, owner: str) -> bool:
    parsed = SharedName.parse(name)
    return parsed is not None and parsed.owner == owner
