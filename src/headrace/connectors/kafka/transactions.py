"""Exactly once into Kafka: an epoch is published in one transaction for each subtask, together with its marker.

A marker says which epoch was published last under a transactional id. It is an offset that a consumer group of the same
name has committed, in the transaction that publishes the epoch: so either both are there or neither is. Markers are
read by consumers of these groups, since librdkafka's admin client crashes when it requests the offsets of a group whose
coordinator moves.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import Final, TypeVar

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    ConfigurationError,
    HeadraceError,
    InfrastructureError,
)
from headrace.common.json_values import from_json
from headrace.common.logs import get_logger
from headrace.connectors.kafka.clients import ClientErrors, ClientSettings, TransactionSettings, error_of
from headrace.connectors.kafka.partitioned_log import partition_count
from headrace.connectors.kafka.writer import MessageSender, StagedEpoch, folder_of, remove_staged_before
from headrace.connectors.sink import Committer, CommitterContext, Json
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_ANSWER_SECONDS: Final = 20
_RETRY_SECONDS: Final = 0.1
_PARTITION: Final = 0


@dataclass(frozen=True, slots=True)
class Marker:
    """The record of the last epoch that was published under a transactional id.

    Attributes:
        topic: the topic at which the offset is; no message of it has to do with it.
        epoch: the epoch: the offset.
        owner: job and sink: the metadata of the offset.
    """

    topic: str
    epoch: int
    owner: str

    def offset(self) -> TopicPartition:
        """The offset that is committed."""
        return TopicPartition(self.topic, _PARTITION, self.epoch, self.owner)


def marker_in(group: Consumer, topic: str) -> Marker | None:
    """The marker that a consumer of the group sees; None where there is none.

    Raises:
        KafkaException: when no broker answers.
    """
    (found,) = committed_in(group, [TopicPartition(topic, _PARTITION)])
    return Marker(topic, found.offset, found.metadata or "") if found.offset >= 0 else None


def committed_in(
    group: Consumer, partitions: Sequence[TopicPartition], passed_over: Sequence[int] = ()
) -> list[TopicPartition]:
    """The offsets that a consumer of the group sees; less than 0 where there is none.

    Requests to a broker that has just become the group's coordinator are retried for a while.

    Args:
        group: the consumer.
        partitions: of what.
        passed_over: the errors of partitions that are left out then.

    Raises:
        KafkaException: when no broker answers.
    """
    end = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            return _committed(group, partitions, passed_over)
        except KafkaException as error:
            if time.monotonic() > end or not _coordinator_moves(error.args[0].code()):
                raise
        time.sleep(_RETRY_SECONDS)


def _committed(
    group: Consumer, partitions: Sequence[TopicPartition], passed_over: Sequence[int]
) -> list[TopicPartition]:
    found: list[TopicPartition] = group.committed(list(partitions), timeout=_ANSWER_SECONDS)
    failed = [each for each in found if each.error is not None]
    for each in failed:
        if each.error.code() not in passed_over:
            raise KafkaException(each.error)
    return [each for each in found if each.error is None]


def _coordinator_moves(code: int) -> bool:
    return code in (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )


def read_marker(settings: ClientSettings, transactional_id: str, topic: str) -> Marker | None:
    """The marker of a transactional id, with a client of its own; a transaction that is open does not count.

    Raises:
        InfrastructureError: when no broker answers.
        ConfigurationError: when the settings are wrong, or the client may not.
    """
    errors = ClientErrors()
    with closing(settings.group(transactional_id, errors, waits=False)) as group:
        try:
            return marker_in(group, topic)
        except KafkaException as error:
            what = f"the marker of transactional id {transactional_id} at {settings.servers} cannot be read"
            group.poll(0)  # has it tell its errors
            errors.check(what)
            raise error_of(error.args[0], what) from None


T = TypeVar("T")

_REQUEST_SECONDS: Final = 30
_MARK_SECONDS: Final = 10
_GRACE_SECONDS: Final = 2


@dataclass(frozen=True, slots=True)
class Publication:
    """An epoch's messages that are published under one transactional id.

    Attributes:
        epoch: the epoch.
        staged: the messages.
        folder: where those are that are in files.
        owner: job and sink, as in its marker.
        without_marker: the epoch that counts as published last when there is no marker; None if not known.
        advice: what to do then.
    """

    epoch: int
    staged: StagedEpoch
    folder: Folder
    owner: str
    without_marker: int | None
    advice: str


class Publisher:
    """A producer of transactions. While it is there, it may publish epoch after epoch.

    It is made in three steps, whose order matters: it takes its transactional id, by which its predecessor can commit
    nothing any more, and its transaction is aborted; then it reads the marker; then it publishes. So a publisher that
    was taken for dead, and comes back in the middle, changes nothing.

    Args:
        settings: how the cluster is reached.
        transactional_id: the id.

    Raises:
        OSError: when no broker answers.
        CommitRefusedError: when the settings are wrong.
    """

    def __init__(self, settings: ClientSettings, transactional_id: str) -> None:
        self._id = transactional_id
        self._servers = settings.servers
        self._last: int | None = None
        more = {"transactional.id": transactional_id}
        self._sender = self._tried(lambda: MessageSender(settings, transactional_id, more))
        self._group = self._tried(lambda: settings.group(transactional_id, ClientErrors(), waits=True))
        self._tried(self._fence_others)

    def publish(self, publication: Publication) -> None:
        """Publish an epoch, unless it is published; after an error the publisher is of no use any more.

        Raises:
            CommitRefusedError: when it can never be published, or there is no telling whether it was.
            OSError: when it was not published, or that is not known.
        """
        if self._last is None:
            self._last = self._tried(lambda: self._read_marker(publication))
        if self._last < publication.epoch:
            marker = Marker(publication.staged.marker_topic, publication.epoch, publication.owner)
            try:
                self._tried(lambda: self._run_transaction(marker, publication.staged.batches(publication.folder)))
            except CommitRefusedError:
                self._abort()  # the next publisher does so too, but readers would wait for it
                raise
            self._last = publication.epoch

    def claim(self, marker: Marker) -> None:
        """Set a marker, unless there is one of the same owner; errors as with :meth:`publish`.

        If the marker is another job's, that job fails when it publishes next.
        """
        found = self._tried(lambda: marker_in(self._group, marker.topic))
        if found is not None and found.owner == marker.owner:
            self._last = found.epoch
            return
        if found is not None:
            logger.warning("transactional id %s of %s is now that of %s", self._id, found.owner, marker.owner)
        self._tried(lambda: self._run_transaction(marker))
        self._last = marker.epoch

    def may_go_on(self) -> bool:
        """Tell whether it may publish another epoch: not once a connection of its broke.

        librdkafka sends again what it got no answer to. The first request may still be on its way, and be executed
        in the middle of a later transaction, which it would commit without its marker. A producer that begins anew
        makes brokers refuse it.
        """
        return not self._sender.lost_connection()

    def close(self) -> None:
        """Close the connections; an open transaction is left to the next publisher with its id."""
        self._group.close()
        self._sender.close()

    def _fence_others(self) -> None:
        self._sender.producer.init_transactions(_REQUEST_SECONDS)

    def _read_marker(self, publication: Publication) -> int:
        marker = marker_in(self._group, publication.staged.marker_topic)
        if marker is not None and marker.owner == publication.owner:
            return marker.epoch
        unknown = f"there is no telling whether epoch {publication.epoch} was published"
        if marker is not None:
            raise CommitRefusedError(
                f"transactional id {self._id} at {self._servers} is used by {marker.owner}, as its marker says, and "
                f"this is {publication.owner}, whose marker it has replaced, so {unknown}. Give each of them a "
                f"set_transactional_id_prefix() of its own. {publication.advice}"
            )
        last = publication.without_marker
        if last is None:
            raise CommitRefusedError(
                f"the marker of transactional id {self._id} at {self._servers} (what group {self._id} has committed at "
                f"topic {publication.staged.marker_topic}) is gone, so {unknown}: it has expired "
                f"(offsets.retention.minutes), or group or topic were deleted. {publication.advice}"
            )
        done = "published, perhaps again" if last < publication.epoch else "taken for published"
        logger.warning("the marker of transactional id %s is gone: epoch %d is %s", self._id, publication.epoch, done)
        return last

    def _run_transaction(self, marker: Marker, batches: Iterable[tuple[str, pa.RecordBatch]] = ()) -> None:
        self._begin()
        for topic, batch in batches:
            self._sender.send(topic, batch)
        try:  # the marker and the messages are on their way together
            self._mark(marker)
        finally:
            self._sender.flush()  # a message that was not delivered is why the marker was not set
        self._commit()

    def _begin(self) -> None:
        self._sender.producer.begin_transaction()

    def _mark(self, marker: Marker) -> None:
        group = self._group.consumer_group_metadata()
        send = self._sender.producer.send_offsets_to_transaction
        _in_time(lambda: send([marker.offset()], group, _MARK_SECONDS), f"the marker of {self._id}")

    def _commit(self) -> None:
        self._sender.producer.commit_transaction(_REQUEST_SECONDS)

    def _abort(self) -> None:
        try:
            self._sender.producer.abort_transaction(_REQUEST_SECONDS)
        except KafkaException as error:
            logger.warning("the transaction of transactional id %s was not aborted: %s", self._id, error)

    def _tried(self, step: Callable[[], T]) -> T:
        """Run a step, and turn its errors into ``OSError`` (may pass) or ``CommitRefusedError`` (will not)."""
        what = f"transactional id {self._id} at {self._servers}"
        try:
            return step()
        except KafkaException as error:
            failure = self._cause(error, what)
        except (ConfigurationError, InfrastructureError) as error:
            failure = error
        if isinstance(failure, InfrastructureError):
            raise OSError(str(failure)) from failure
        raise CommitRefusedError(str(failure)) from failure

    def _cause(self, error: KafkaException, what: str) -> HeadraceError:
        """The cause of an error: librdkafka reports it, a wrong password, say, apart from the failed request."""
        try:
            self._sender.check(what)
        except HeadraceError as lasting:
            return lasting
        return error_of(error.args[0], what)


def _in_time(step: Callable[[], T], what: str) -> T:
    """Run a step with a deadline, as a call of librdkafka may not return when a broker is killed meanwhile.

    Raises:
        InfrastructureError: when it has not ended some seconds after it should have.
    """
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(step())
        except BaseException as error:  # raised again in the waiting thread
            done.set_exception(error)

    threading.Thread(target=work, name="headrace-publisher", daemon=True).start()
    try:
        return done.result(_MARK_SECONDS + _GRACE_SECONDS)
    except NotInTime:
        raise InfrastructureError(f"{what} is not set: librdkafka has not answered in time") from None


def check_settings(settings: ClientSettings) -> None:
    """Have librdkafka look at settings before there is anything to publish.

    Raises:
        ConfigurationError: when it does not take them for transactions.
    """
    MessageSender(settings, "check", {"transactional.id": "check"}).close()


_IN_DRIVER_MESSAGES: Final = 1_000_000
_IN_DRIVER_BYTES: Final = 128 << 20
"""An epoch with more is published in tasks, each of which needs half a second to get its transactional id, and a core
that the next epoch would have. A publisher here takes a microsecond for a message, so for most of the second that an
epoch takes it is done with these."""

_THREADS: Final = 16
"""The number of publishers of this process that work at the same time."""

_QUIET_SECONDS: Final = 3600
"""A marker that was not set for so long may have expired, where it is known that nothing was published since."""


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
        publications = [self._publication(epoch, from_json(StagedEpoch, each)) for each in committables]
        staged = [each.staged for each in publications]
        ids = [each.transactional_id for each in staged]
        if epoch > self._attempted:
            self._attempted = epoch
            self._claim([id_ for id_ in ids if self._is_quiet(id_)], epoch - 1)
        if _is_large(staged):
            self._close_publishers(ids)
            self._context.run_in_tasks(partial(_publish_in_task, self._settings.client), publications)
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
        about = (staged.transactional_id, epoch, self._context.waiting)
        last = self._settings.last_published(*about)
        return Publication(
            epoch=epoch,
            staged=staged if last is None else self._under_own_id(staged),
            folder=self._folder,
            owner=self._owner,
            without_marker=last,
            advice=self._settings.advice(*about),
        )

    def _under_own_id(self, staged: StagedEpoch) -> StagedEpoch:
        """Move what waits under a former id, which is another job's by now, to an id of this sink's own.

        The marker of that id does not say any more whether it was published, so the program has to.
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
        """Set markers of this job for ids, so that one that is missing later is known to be lost.

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
        """Run work of publishers in this process, by transactional id, in parallel."""
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
    """Refuse a checkpoint that is older than what is published.

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
    """The owner that the markers of a sink name."""
    return f"job {context.job_id}, sink {context.operator_id}"


def is_owner(metadata: str) -> bool:
    """Return whether the metadata of an offset name the owner of a marker."""
    return _OWNER.match(metadata) is not None


_OWNER: Final = re.compile(r"job \S+, sink ")


def _publish_in_task(settings: ClientSettings, publication: Publication) -> None:
    with closing(Publisher(settings, publication.staged.transactional_id)) as publisher:
        publisher.publish(publication)


def _is_large(staged: Sequence[StagedEpoch]) -> bool:
    messages, size = sum(each.messages for each in staged), sum(each.size for each in staged)
    return messages > _IN_DRIVER_MESSAGES or size > _IN_DRIVER_BYTES
