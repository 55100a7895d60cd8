"""The manifests of a job: the one that it begins with, and that of an epoch, made of what its tasks report."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import (
    Manifest,
    OperatorProgress,
    OperatorSnapshot,
    PartitionSnapshot,
    SourceSnapshot,
    StageSnapshot,
)
from headrace.jobmanager.metrics import next_operator_counters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.jobmanager.sinks.job_sinks import SinkOutput
    from headrace.plan.job_plan import JobPlan, Stage
    from headrace.runtime.task.messages import EpochContext, TaskReport


def first_manifest(plan: JobPlan) -> Manifest:
    """What a job begins with that has never run before; it is not written."""
    return Manifest(
        epoch=0,
        generation=0,
        job_id=uuid.uuid4().hex,
        job_name=plan.name,
        max_parallelism=plan.settings.max_parallelism,
        state_backend=plan.settings.state_backend.name,
        processing_time=0,
    )


def next_manifest(
    manifest: Manifest,
    plan: JobPlan,
    context: EpochContext,
    reports: Sequence[TaskReport],
    *,
    sources: Mapping[str, SourceSnapshot],
    sinks: SinkOutput,
    read: int,
) -> Manifest:
    """The manifest of an epoch that has succeeded; ``sinks`` have all of this to commit, of earlier epochs too."""
    by_task = {(report.stage, report.partition): report for report in reports}
    return Manifest(
        epoch=context.epoch,
        generation=context.generation,
        job_id=manifest.job_id,
        job_name=plan.name,
        max_parallelism=plan.settings.max_parallelism,
        state_backend=plan.settings.state_backend.name,
        processing_time=context.processing_time,
        sources=sources,
        stages=tuple(_stage(stage, by_task) for stage in plan.stages),
        pending=sinks.commits,
        in_progress=sinks.in_progress,
        finished=context.is_last,
        counters=_counters(manifest.counters, reports, read),
        operator_counters=next_operator_counters(manifest.operator_counters, plan, reports),
        state_bytes=sum(report.state.size for report in reports),
    )


def _stage(stage: Stage, reports: Mapping[tuple[int, int], TaskReport]) -> StageSnapshot:
    kept = [operator for operator in stage.operators if stage.index or operator.state_kinds]
    operators = {op.uid: OperatorSnapshot(op.parallelism, op.max_parallelism, op.state_kinds) for op in kept}
    uids = {operator.node.id: operator.uid for operator in kept}
    partitions = []
    for number in range(stage.parallelism if kept else 0):
        report = reports[stage.index, number]
        progress = {
            uids[node]: OperatorProgress(watermark, report.outputs[node], report.generators.get(node))
            for node, watermark in report.watermarks.items()
        }
        partitions.append(PartitionSnapshot(report.state.version, progress, report.state.earliest_timer))
    return StageSnapshot(operators, tuple(partitions))


def _counters(totals: Mapping[str, int], reports: Sequence[TaskReport], read: int) -> dict[str, int]:
    """Totals of the job: what its own counters have come to in all operators together."""
    counters = Counter(totals)
    counters["numRecordsRead"] += read
    counters["numEpochs"] += 1
    for report in reports:
        for counts in report.counters.values():
            for name, amount in counts.items():
                counters[name] += amount
    return dict(counters)
