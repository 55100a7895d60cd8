"""What the tasks of an epoch report: an error for the user, how much was read, what sinks want committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.messages import TaskReport


def raise_reported(reports: Sequence[TaskReport]) -> None:
    """Raise what a task reported, the earliest stage first: later ones may only suffer from it.

    Raises:
        HeadraceError: the failure of the user's code or input.
    """
    failed = [report for report in reports if report.error is not None]
    if failed:
        first = min(failed, key=lambda report: (report.stage, report.partition))
        assert first.error is not None
        raise first.error.to_error()


def records_read(plan: JobPlan, reports: Sequence[TaskReport]) -> int:
    """How many records the sources gave; the enumerators' word for it is an estimate."""
    sources = {planned.node.id for planned in plan.operators() if not planned.node.inputs}
    return sum(count for report in reports for node, count in report.records.items() if node in sources)


def committables_by_sink(plan: JobPlan, reports: Sequence[TaskReport]) -> dict[str, list[object]]:
    """What the sinks of all tasks want committed, by uid, in the order of the tasks."""
    found: dict[str, list[object]] = {}
    for report in sorted(reports, key=lambda report: (report.stage, report.partition)):
        for node, committables in report.committables.items():
            found.setdefault(plan.operator(node).uid, []).extend(committables)
    return found
