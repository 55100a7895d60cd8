"""The driver's half of a log sink: what an epoch has written becomes visible at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    InfrastructureError,
    LogError,
    ProducerFencedError,
)
from headrace.connectors.log.marker import OutputMarker
from headrace.connectors.sink import Committer
from headrace.log.commits import Author, Commit
from headrace.log.staging import Staged, publish
from headrace.log.transactions import ABANDONED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.connectors.sink import CommitterContext, Json
    from headrace.log.log import Log
    from headrace.log.state import LogState, ProducerState


_PRODUCER: Final = re.compile("headrace-([0-9a-f]{32})-(.+)")


class LogCommitter(Committer):
    """Makes what an epoch has written visible in one commit, whose author says the job, its generation and the epoch.

    Args:
        log: the log.
        context: the job.

    Raises:
        CheckpointError: when the log is an older copy, or what waited there was abandoned.
        InfrastructureError: when a younger job manager has taken over.
    """

    def __init__(self, log: Log, context: CommitterContext) -> None:
        self._journal = log.journal
        self._producer = producer_of(context.job_id, context.operator_id)
        self._generation = context.generation
        self._marker = marker_of(log, context)
        self._take_over()

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        staged = [Staged.from_json(each) for each in committables]
        try:
            publish(self._journal, Author(self._producer, self._generation, epoch), staged)
        except ProducerFencedError as error:
            raise InfrastructureError(str(error)) from error
        except LogError as error:
            raise CommitRefusedError(f"{self._journal} does not take the output of epoch {epoch}: {error}") from error
        self._marker.write(epoch)

    def finish(self) -> None:
        self._marker.remove()

    def _take_over(self) -> None:
        """Have older generations be fenced; what they have committed stays known."""

        def describe(state: LogState) -> Commit:
            known = state.producers.get(self._producer)
            _refuse_abandoned(known, str(self._journal))
            if known is not None and known.epoch > self._generation:
                raise InfrastructureError(
                    f"a younger job manager writes to {self._journal} (generation {known.epoch}, this one is "
                    f"{self._generation}): this one has to stop"
                )
            self._marker.check(known)
            author = Author(self._producer, self._generation, 0 if known is None else known.sequence)
            return Commit(author, self._journal.clock())

        self._journal.commit(None, describe)


def producer_of(job_id: str, operator_id: str) -> str:
    """The id under which a sink of a job commits."""
    return f"headrace-{job_id}-{operator_id}"


def job_and_sink(producer: str) -> tuple[str, str] | None:
    """The job and the uid of the sink that commit under an id; None where it is a program's own."""
    found = _PRODUCER.fullmatch(producer)
    return (found[1], found[2]) if found else None


def marker_of(log: Log, context: CommitterContext) -> OutputMarker:
    """What the job itself remembers of the output of a sink."""
    return OutputMarker(context.folder, producer_of(context.job_id, context.operator_id), str(log))


def refuse_other_times(log: Log, context: CommitterContext) -> None:
    """Notice that the checkpoint is older than the output, or the log older than the checkpoint.

    Raises:
        CheckpointError: naming the epochs of both; or when what waited in the log was abandoned.
    """
    with log.journal.lock:
        log.journal.refresh()
        known = log.journal.state().producers.get(producer_of(context.job_id, context.operator_id))
    _refuse_abandoned(known, str(log))
    marker_of(log, context).check(known)
    if known is not None and known.sequence > context.restored_epoch:
        raise CheckpointError(
            f"the checkpoint directory is at epoch {context.restored_epoch}, but {log} holds output of this job up to "
            f"epoch {known.sequence}: the directory is an old copy, or newer checkpoints were removed, and going on "
            "would write that output again. Put the newest checkpoint directory back; or start a new job, with a "
            "checkpoint directory of its own"
        )


def _refuse_abandoned(known: ProducerState | None, log: str) -> None:
    if known is not None and known.epoch == ABANDONED:
        raise CheckpointError(
            f"{log} takes no output of this job any more: what waited there for a commit was abandoned, with `headrace "
            "log abandon`, and is lost. Start a new job, with a checkpoint directory of its own"
        )
