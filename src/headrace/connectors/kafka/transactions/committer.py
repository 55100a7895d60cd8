"""The driver's half of a Kafka sink with transactions: has what was staged be published when the manifest exists."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointError, HeadraceError, InfrastructureError
from headrace.connectors.kafka.partitioned_log import partition_count
from headrace.connectors.kafka.transactions.markers import Marker, read_marker
from headrace.connectors.kafka.transactions.publisher import Publication, Publisher
from headrace.connectors.kafka.transactions.staging import StagedEpoch, remove_staged_before
from headrace.connectors.sink import Committer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.connectors.kafka.clients import ClientSettings
    from headrace.connectors.kafka.transactions.markers import WithoutMarker
    from headrace.connectors.sink import CommitterContext, Json
    from headrace.storage.folder import Folder

_IN_DRIVER_MESSAGES: Final = 1_000_000
_IN_DRIVER_BYTES: Final = 128 << 20
"""An epoch with more is published in tasks, each of which needs half a second to get its transactional id, and a core
that the next epoch would have. A publisher here takes a microsecond for a message, so for most of the second that an
epoch takes it is done with these."""

_THREADS: Final = 16
"""So many publishers of this process work side by side."""

_QUIET_SECONDS: Final = 3600
"""A marker that was not set for so long may have expired, where it is known that nothing was published since."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How a sink publishes.

    Attributes:
        client: how the cluster is reached.
        prefix: the beginning of transactional ids; the job's and the sink's when None.
        marker_topic: at which topic markers are.
        without_marker: what counts as published without one.
    """

    client: ClientSettings
    prefix: str | None
    marker_topic: str
    without_marker: WithoutMarker

    def transactional_id(self, job_id: str, operator_id: str, subtask: int) -> str:
        """The id under which a subtask's messages are published, the same over all restarts."""
        return f"{self.prefix or f'headrace-{job_id}-{operator_id}'}-{subtask}"


class KafkaCommitter(Committer):
    """Publishes what manifests name: each subtask's messages of an epoch in one transaction, in which its marker is.

    Few messages are published by this process, whose publishers stay from epoch to epoch; many of them by tasks.

    Args:
        settings: how.
        context: the job.

    Raises:
        ConfigurationError: when the settings are wrong, or the client may not do what it has to.
        InfrastructureError: when no broker answers.
    """

    def __init__(self, settings: TransactionSettings, context: CommitterContext) -> None:
        self._settings = settings
        self._context = context
        self._folder = folder_of(context.folder)
        self._folder.make()
        self._ids = transactional_ids(settings, context)
        self._owner = owner_of(context)
        self._set_at: dict[str, float] = {}
        self._attempted = context.restored_epoch
        self._publishers: dict[str, Publisher] = {}
        if not context.restored_epoch:  # else what is pending comes first, and needs the marker that is there
            try:
                self._claim(self._ids, 0)
            except HeadraceError:
                raise
            except OSError as error:
                raise InfrastructureError(str(error)) from error

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        publications = [self._publication(epoch, StagedEpoch.from_json(each)) for each in committables]
        staged = [each.staged for each in publications]
        ids = [each.transactional_id for each in staged]
        if epoch > self._attempted:
            self._attempted = epoch
            self._claim([id_ for id_ in ids if self._is_quiet(id_)], epoch - 1)
        if _is_large(staged):
            self._close_publishers(ids)
            self._context.run_in_tasks(_Publishing(self._settings.client), publications)
        else:
            self._do_here({each.staged.transactional_id: methodcaller("publish", each) for each in publications})
        self._set_at.update(dict.fromkeys(ids, time.monotonic()))
        files = [file.name for each in staged for file in each.files]
        if files:
            self._folder.remove_all(files)

    def recover(self, in_progress: Json | None) -> None:
        self._claim(self._ids, self._context.restored_epoch)
        remove_staged_before(self._folder, self._context.generation)

    def finish(self) -> None:
        remove_staged_before(self._folder, self._context.generation + 1)

    def close(self) -> None:
        self._close_publishers(list(self._publishers))

    def _publication(self, epoch: int, staged: StagedEpoch) -> Publication:
        said, about = self._settings.without_marker, (staged.transactional_id, epoch, self._context.waiting)
        last = said.last_published(*about)
        return Publication(
            epoch=epoch,
            staged=staged if last is None else self._under_own_id(staged),
            folder=self._folder,
            owner=self._owner,
            without_marker=last,
            advice=said.advice(*about),
        )

    def _under_own_id(self, staged: StagedEpoch) -> StagedEpoch:
        """What waits under a former id that is another job's by now, under one of this sink's own.

        Whether it was published the marker of that id does not tell any more, so somebody has to have said it.
        """
        former = staged.transactional_id
        if former in self._ids:
            return staged
        try:
            marker = read_marker(self._settings.client, former, staged.marker_topic)
        except InfrastructureError as error:
            raise OSError(str(error)) from error
        if marker is None or marker.owner == self._owner:
            return staged
        return replace(staged, transactional_id=f"{self._ids[0]}-{former}")

    def _claim(self, ids: Sequence[str], epoch: int) -> None:
        """See to it that ids have markers of this job, so that one that is missed later was lost.

        Nothing of this job may be in the middle of being published under them.
        """
        if not ids:
            return
        partition_count(self._settings.client, self._settings.marker_topic)  # it has to be there
        claim = Marker(self._settings.marker_topic, epoch, self._owner)
        self._do_here({id_: methodcaller("claim", claim) for id_ in ids})
        self._set_at.update(dict.fromkeys(ids, time.monotonic()))

    def _is_quiet(self, id_: str) -> bool:
        return time.monotonic() - self._set_at.get(id_, time.monotonic()) > _QUIET_SECONDS

    def _do_here(self, work: Mapping[str, Callable[[Publisher], None]]) -> None:
        """Have publishers in this process do something, by transactional id, side by side."""
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="headrace-publisher") as pool:
            done = [pool.submit(self._do, id_, each) for id_, each in work.items()]
        for future in done:
            future.result()

    def _do(self, id_: str, work: Callable[[Publisher], None]) -> None:
        publisher = self._publishers.pop(id_, None) or Publisher(self._settings.client, id_)
        try:
            work(publisher)
        except BaseException:
            publisher.close()
            raise
        if publisher.may_go_on():
            self._publishers[id_] = publisher
        else:
            publisher.close()

    def _close_publishers(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            publisher = self._publishers.pop(id_, None)
            if publisher is not None:
                publisher.close()


def refuse_future(settings: TransactionSettings, context: CommitterContext) -> None:
    """Notice that a checkpoint is older than what is published.

    Raises:
        CheckpointError: naming the epoch of that.
        InfrastructureError: when no broker answers.
    """
    ids = transactional_ids(settings, context)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda id_: read_marker(settings.client, id_, settings.marker_topic), ids)
    for id_, marker in zip(ids, found, strict=True):
        if marker is not None and marker.owner == owner_of(context) and marker.epoch > context.restored_epoch:
            raise CheckpointError(
                f"the checkpoint directory is at epoch {context.restored_epoch}, but under transactional id {id_} "
                f"messages up to epoch {marker.epoch} are published at {settings.client.servers}: the directory is an "
                "old copy, or newer checkpoints were removed, and going on would publish them again. Put the newest "
                "checkpoint directory back; or start a new job, with a checkpoint directory of its own"
            )


def transactional_ids(settings: TransactionSettings, context: CommitterContext) -> list[str]:
    """The ids that the parallel writers of a sink have now."""
    return [
        settings.transactional_id(context.job_id, context.operator_id, subtask)
        for subtask in range(context.parallelism)
    ]


def owner_of(context: CommitterContext) -> str:
    """What markers call a sink of a job."""
    return f"job {context.job_id}, sink {context.operator_id}"


def folder_of(folder: Folder | None) -> Folder:
    """The sink's folder, without which nothing can be staged."""
    assert folder is not None, "a sink has a folder in every job"
    return folder


class _Publishing:
    """Publishes in a task, with a publisher of its own."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def __call__(self, publication: Publication) -> None:
        with closing(Publisher(self._settings, publication.staged.transactional_id)) as publisher:
            publisher.publish(publication)


def _is_large(staged: Sequence[StagedEpoch]) -> bool:
    messages, size = sum(each.messages for each in staged), sum(each.size for each in staged)
    return messages > _IN_DRIVER_MESSAGES or size > _IN_DRIVER_BYTES
