"""The reports of all tasks of an epoch, put together."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from operator import attrgetter
from typing import Final, TypeAlias

from headrace.checkpoint.manifest import OperatorCounters, PartitionSnapshot
from headrace.common.errors import UserFunctionError
from headrace.metrics.registry import BYTES_IN, BYTES_OUT, EVENTS, RECORDS_IN, RECORDS_OUT
from headrace.plan.job_plan import PlannedOperator
from headrace.runtime.task.messages import ChannelReport, TaskReport

StateSizes: TypeAlias = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Bytes of state by uid, name of the store, and task of the stage."""


class EpochReports:
    """The reports of all tasks of an epoch together, whatever the order in which they have come.

    Attributes:
        tasks: the reports, by stage and task.
        snapshots: what the manifest keeps of each task, by stage and task.
        channels: how far the pieces of each split have come.
        committables: what sinks want committed, by uid, in the order of the tasks.
        held: why operators hold the epoch back, by uid: what the first of their subtasks says.
        operator_counters: what has been counted, by uid, name and subtask.
        job_counters: what the job's own counters have come to in all operators together.
        state_sizes: the sizes of all state.
        state_bytes: the bytes of all state.
    """

    def __init__(self, reports: Iterable[TaskReport]) -> None:
        self.tasks: list[TaskReport] = sorted(reports, key=attrgetter("stage", "partition"))
        self.snapshots: dict[tuple[int, int], PartitionSnapshot] = {}
        self.channels: defaultdict[int, list[ChannelReport]] = defaultdict(list)
        self.committables: dict[str, list[object]] = {}
        self.held: dict[str, str] = {}
        self.operator_counters: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(partial(defaultdict, list))
        self.job_counters: Counter[str] = Counter()
        self.state_bytes = 0
        tasks = Counter(map(attrgetter("stage"), self.tasks))
        sizes: dict[str, dict[str, list[int]]] = {}
        for report in self.tasks:
            self._add(report)
            self._count(report)
            self._add_state(report, tasks[report.stage], sizes)
        self.state_sizes: StateSizes = {
            uid: {name: tuple(by_task) for name, by_task in by_name.items()} for uid, by_name in sizes.items()
        }

    def records_read(self, uid: str) -> int:
        """Return how many records a source gave; its enumerator's word for it is an estimate."""
        counted = self.operator_counters.get(uid)
        return 0 if counted is None else sum(counted.get(RECORDS_IN, ()))

    def counters_after(self, known: OperatorCounters) -> OperatorCounters:
        """The totals of operators after the epoch; those of subtasks that there are no more stay in the sums."""
        after = dict(known)
        for uid, counted in self.operator_counters.items():
            totals = dict(known.get(uid, {}))
            for name, amounts in counted.items():
                totals[name] = tuple(map(sum, zip_longest(totals.get(name, ()), amounts, fillvalue=0)))
            after[uid] = totals
        return after

    def _add(self, report: TaskReport) -> None:
        self.snapshots[report.stage, report.partition] = report.snapshot
        for channel in report.channels:
            self.channels[channel.channel].append(channel)
        self.held = {**report.held, **self.held}
        for uid, committables in report.committables.items():
            self.committables.setdefault(uid, []).extend(committables)

    def _count(self, report: TaskReport) -> None:
        """Count what went through all operators, and what they and the functions of the program have counted."""
        subtask = report.partition
        for uid, records in report.records.items():
            self._increase(uid, RECORDS_IN, subtask, records)
        for uid, traffic in report.traffic.items():
            for name, amount in zip((RECORDS_OUT, BYTES_IN, BYTES_OUT), traffic, strict=True):
                if amount:
                    self._increase(uid, name, subtask, amount)
        for uid, counts in report.counters.items():
            self.job_counters.update(counts)
            for name, amount in counts.items():
                self._increase(uid, name, subtask, amount)
        for uid, measured in report.metrics.items():
            for name, amount in measured.counters.items():
                self._increase(uid, name, subtask, amount)
            for name, (events, _) in measured.meters.items():
                self._increase(uid, name + EVENTS, subtask, events)

    def _increase(self, uid: str, name: str, subtask: int, amount: int) -> None:
        by_subtask = self.operator_counters[uid][name]
        if len(by_subtask) <= subtask:
            by_subtask += [0] * (subtask + 1 - len(by_subtask))
        by_subtask[subtask] += amount

    def _add_state(self, report: TaskReport, tasks: int, sizes: dict[str, dict[str, list[int]]]) -> None:
        for uid, by_name in report.state_sizes.items():
            of_operator = sizes.setdefault(uid, {})
            for name, size in by_name.items():
                if name not in of_operator:
                    of_operator[name] = [0] * tasks
                of_operator[name][report.partition] = size
                self.state_bytes += size


def raise_reported(reports: Sequence[TaskReport]) -> None:
    """Raise what a task reported, the earliest stage first: later ones may only suffer from it.

    Raises:
        HeadraceError: the failure of the user's code or input.
    """
    for report in sorted(reports, key=attrgetter("stage", "partition")):
        if report.error is not None:
            raise report.error.to_error()


_ADVICE: Final = (
    "process_broadcast_element has to do the same in each, so what it changes may follow from the record and the state "
    "alone, not from the subtask, a clock, chance, fields of the function or the order of a set"
)


def check_broadcast_state(operator: PlannedOperator, reports: Sequence[TaskReport]) -> None:
    """Refuse an epoch in which subtasks of an operator have changed its broadcast state in different ways.

    What is too large for their versions the first subtask alone has written, and after a start all go on with what it
    has.

    Raises:
        UserFunctionError: naming the operator and two of its subtasks.
    """
    versions = {report.partition: report.snapshot.version for report in reports if report.stage == operator.stage}
    digests = {task: dict(version.shared) if version else {} for task, version in versions.items()}
    shared = [digests[task].get(operator.uid) for task in range(operator.parallelism)]
    other = next((task for task, digest in enumerate(shared) if digest != shared[0]), None)
    if other is not None:
        node = operator.node
        raise UserFunctionError(
            f"the broadcast state of operator {node.name!r} (uid {operator.uid}) is not the same in subtasks 0 and "
            f"{other}: {_ADVICE}\n  operator defined at {node.call_site}"
        )
