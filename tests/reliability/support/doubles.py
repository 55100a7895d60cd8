"""Stand-ins for parts of the engine that die where a plan says, put in place by the programs of the tests.

The engine itself knows nothing of them: a store, a sink and its committer are interfaces, and these wrap the real ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.checkpoint.store import CheckpointStore
from headrace.client import submission
from headrace.common import options
from headrace.connectors.sink import Committer, Sink
from headrace.storage.locations import open_storage
from tests.reliability.support.faults import FaultPlan, die

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.checkpoint.manifest import Manifest
    from headrace.common.configuration import Configuration
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import CommitterContext, PreCommit, SinkWriter, WriterContext
    from headrace.storage.folder import Folder

BEFORE_MANIFEST = "tasks have written state and output, the manifest is not written"
AFTER_MANIFEST = "the manifest is written, the sinks are not asked"
AFTER_TAKE_OVER = "a restarted job manager has taken over and done nothing else"
HALF_COMMIT = "half of the committables of a sink are committed"
BEFORE_CLEANING = "a restarted job has committed what was pending and not cleaned up"
BEFORE_FINISH = "all input is processed, output in progress is not published"


class DyingStore(CheckpointStore):
    """A checkpoint store on a machine that loses power."""

    def __init__(self, storage: Folder, num_retained: int, plan: FaultPlan) -> None:
        super().__init__(storage, num_retained)
        self._plan = plan

    def take_over(self, previous: Manifest) -> Manifest:
        taken = super().take_over(previous)
        if self._plan.strikes(AFTER_TAKE_OVER):
            die()
        return taken

    def write(self, manifest: Manifest) -> None:
        if self._plan.strikes(BEFORE_MANIFEST):
            die()
        super().write(manifest)
        if self._plan.strikes(AFTER_MANIFEST):
            die()


class DyingSink(Sink):
    """A sink whose driver loses power while it commits.

    Args:
        sink: does the work.
        plan: says when.
    """

    def __init__(self, sink: Sink, plan: FaultPlan) -> None:
        self._sink = sink
        self._plan = plan

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self._sink.create_writer(context)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _DyingCommitter(self._sink.create_committer(context), self._plan)

    def check_output(self, context: CommitterContext) -> None:
        self._sink.check_output(context)

    @property
    def pre_commit(self) -> PreCommit | None:
        return self._sink.pre_commit

    @property
    def is_durable(self) -> bool:
        return self._sink.is_durable

    def validate(self, input_type: TypeInformation) -> None:
        self._sink.validate(input_type)


class _DyingCommitter(Committer):
    def __init__(self, committer: Committer, plan: FaultPlan) -> None:
        self._committer = committer
        self._plan = plan

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        if len(committables) > 1 and self._plan.strikes(HALF_COMMIT):
            self._committer.commit(epoch, committables[: len(committables) // 2], processing_time)
            die()
        self._committer.commit(epoch, committables, processing_time)

    def recover(self, in_progress: Any) -> None:
        if self._plan.strikes(BEFORE_CLEANING):
            die()
        self._committer.recover(in_progress)

    def finish(self) -> None:
        if self._plan.strikes(BEFORE_FINISH):
            die()
        self._committer.finish()

    def close(self) -> None:
        self._committer.close()


def use_dying_store(plan: FaultPlan) -> None:
    """Let the jobs of this process keep their manifests in a :class:`DyingStore`."""

    def open_store(configuration: Configuration) -> CheckpointStore:
        location = configuration.get(options.CHECKPOINT_DIR)
        assert location is not None
        return DyingStore(open_storage(location), configuration.get(options.CHECKPOINTS_RETAINED), plan)

    submission.open_store = open_store
