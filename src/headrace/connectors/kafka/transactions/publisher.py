"""Publishing: what an epoch has staged under one transactional id becomes visible in one transaction, once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.common.errors import CommitRefusedError, ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.connectors.kafka.clients import ClientErrors, error_of
from headrace.connectors.kafka.transactions.markers import Marker, marker_in
from headrace.connectors.kafka.writer import MessageSender

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

    from headrace.connectors.kafka.clients import ClientSettings
    from headrace.connectors.kafka.transactions.staging import StagedEpoch
    from headrace.storage.folder import Folder

T = TypeVar("T")

logger = get_logger(__name__)

_REQUEST_SECONDS: Final = 30
_MARK_SECONDS: Final = 10
_GRACE_SECONDS: Final = 2


@dataclass(frozen=True, slots=True)
class Publication:
    """What is published of an epoch under one transactional id.

    Attributes:
        epoch: the epoch.
        staged: the messages.
        folder: where those are that are in files.
        owner: job and sink, as in its marker.
        without_marker: the epoch that counts as published last when there is no marker; None when nobody knows.
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

    It is made in three steps, whose order matters: it asks for its transactional id, by which whoever had it can commit
    nothing any more, and what he left open is aborted; then it reads the marker; then it publishes. So a publisher that
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
            try:
                self._tried(lambda: self._run_transaction(publication))
            except CommitRefusedError:
                self._abort()  # who comes next does so too, but readers would wait for him
                raise
            self._last = publication.epoch

    def claim(self, marker: Marker) -> None:
        """Set a marker, unless there is one of the same owner; errors as with :meth:`publish`.

        Where the marker is another job's, that job is told when it publishes next.
        """
        found = self._tried(lambda: marker_in(self._group, marker.topic))
        if found is not None and found.owner == marker.owner:
            self._last = found.epoch
            return
        if found is not None:
            logger.warning("transactional id %s of %s is now that of %s", self._id, found.owner, marker.owner)
        self._tried(lambda: self._set(marker))
        self._last = marker.epoch

    def may_go_on(self) -> bool:
        """Whether another epoch may be published by it: not once a connection of its broke.

        librdkafka sends again what it got no answer to. The first request may still be on its way, and be carried out
        in the middle of a later transaction, which it would commit without its marker. A producer that begins anew
        makes brokers refuse it.
        """
        return not self._sender.lost_connection()

    def close(self) -> None:
        """Let go of the connections; an open transaction is left to whoever asks for its id next."""
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

    def _run_transaction(self, publication: Publication) -> None:
        self._begin()
        for topic, batch in publication.staged.batches(publication.folder):
            self._sender.send(topic, batch)
        try:  # the marker and the messages are on their way together
            self._mark(Marker(publication.staged.marker_topic, publication.epoch, publication.owner))
        finally:
            self._sender.flush()  # a message that was not delivered is why the marker was not set
        self._commit()

    def _set(self, marker: Marker) -> None:
        self._begin()
        self._mark(marker)
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
        from confluent_kafka import KafkaException

        try:
            self._sender.producer.abort_transaction(_REQUEST_SECONDS)
        except KafkaException as error:
            logger.warning("the transaction of transactional id %s was not aborted: %s", self._id, error)

    def _tried(self, step: Callable[[], T]) -> T:
        """Have errors say whether there is any use in trying again."""
        from confluent_kafka import KafkaException

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
        """A wrong password, say, is a request in vain for librdkafka; what it was about it tells beside it."""
        try:
            self._sender.check(what)
        except HeadraceError as lasting:
            return lasting
        return error_of(error.args[0], what)


def _in_time(step: Callable[[], T], what: str) -> T:
    """Leave a step behind that does not return, as librdkafka may when a broker is killed in the middle of it.

    Raises:
        InfrastructureError: when it has not ended some seconds after it should have.
    """
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(step())
        except BaseException as error:  # raised again by whoever waits
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
