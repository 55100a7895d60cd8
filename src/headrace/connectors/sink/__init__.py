"""The sink framework: what a connector has to offer so that a job can write to it exactly once.

A sink has two halves. The **writer** lives in the task: it makes the records of an epoch durable but not visible, and
hands over *committables*. The **committer** lives in the driver and makes them visible after the manifest of the epoch
exists. A committable that the manifest holds may be committed again after a failure, so committing is idempotent.
A sink without a committer shows records when its writer writes them, so it cannot promise to show them once: it says
so by its :class:`DeliveryGuarantee`.

Between the two a sink may have a **pre-commit**: it decides, before the manifest is written, what of all that was
written becomes visible and what waits for more. So the manifest says both, and a committer only ever does what a
manifest says: of two job managers that are alive, the older one cannot make anything visible that the younger one
would not.
"""

from __future__ import annotations

from headrace.connectors.sink.committer import (
    Committer,
    CommitterContext,
    Json,
    PreCommit,
    PreCommitted,
    RunInTasks,
    as_in_a_checkpoint,
    as_json,
    run_here,
)
from headrace.connectors.sink.sink import DeliveryGuarantee, Sink, without_committer
from headrace.connectors.sink.writer import SinkWriter, WriterContext, WriterEpoch

__all__ = [
    "Committer",
    "CommitterContext",
    "DeliveryGuarantee",
    "Json",
    "PreCommit",
    "PreCommitted",
    "RunInTasks",
    "Sink",
    "SinkWriter",
    "WriterContext",
    "WriterEpoch",
    "as_in_a_checkpoint",
    "as_json",
    "run_here",
    "without_committer",
]
