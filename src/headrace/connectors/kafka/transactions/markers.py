"""Markers: which epoch was published last under a transactional id.

A marker is an offset that a consumer group of the same name has committed. It is committed in the transaction that
publishes the epoch, so either both are there or neither is.

They are read by consumers of these groups: librdkafka's admin client crashes when it asks for the offsets of a group
whose coordinator moves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from headrace.connectors.kafka.clients import ClientErrors, error_of

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from headrace.connectors.kafka.clients import ClientSettings


_REQUEST_SECONDS: Final = 20
_RETRY_SECONDS: Final = 0.1
_PARTITION: Final = 0


@dataclass(frozen=True, slots=True)
class Marker:
    """What was published last under a transactional id.

    Attributes:
        topic: the topic at which the offset is; no message of it has to do with it.
        epoch: the epoch: the offset.
        owner: job and sink: the metadata of the offset.
    """

    topic: str
    epoch: int
    owner: str

    def offset(self) -> TopicPartition:
        """As it is committed."""
        from confluent_kafka import TopicPartition

        return TopicPartition(self.topic, _PARTITION, self.epoch, self.owner)


def marker_in(group: Any, topic: str) -> Marker | None:
    """The marker that a consumer of the group sees; None where there is none.

    A broker that has just become the group's coordinator is asked again for a while.

    Raises:
        KafkaException: when no broker answers.
    """
    from confluent_kafka import KafkaException

    end = time.monotonic() + _REQUEST_SECONDS
    while True:
        try:
            return _committed(group, topic)
        except KafkaException as error:
            if time.monotonic() > end or not _coordinator_moves(error.args[0].code()):
                raise
        time.sleep(_RETRY_SECONDS)


def _committed(group: Any, topic: str) -> Marker | None:
    from confluent_kafka import KafkaException, TopicPartition

    (found,) = group.committed([TopicPartition(topic, _PARTITION)], timeout=_REQUEST_SECONDS)
    if found.error is not None:
        raise KafkaException(found.error)
    return Marker(topic, found.offset, found.metadata or "") if found.offset >= 0 else None


def _coordinator_moves(code: int) -> bool:
    from confluent_kafka import KafkaError

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
    from confluent_kafka import KafkaException

    errors = ClientErrors()
    with closing(settings.group(transactional_id, errors, waits=False)) as group:
        try:
            return marker_in(group, topic)
        except KafkaException as error:
            what = f"the marker of transactional id {transactional_id} at {settings.servers} cannot be read"
            group.poll(0)  # has it tell its errors
            errors.check(what)
            raise error_of(error.args[0], what) from None


class MissingMarker(Enum):
    """What a ``KafkaSink`` does when Kafka has lost the mark that says which epoch was published last.

    Examples:
        >>> from headrace.datastream.connectors.kafka import MissingMarker
        >>> [choice.name for choice in MissingMarker]
        ['FAIL', 'PUBLISH']
    """

    FAIL = "fail"
    """Stop the job, and say so, until ``set_published_up_to`` tells: messages could be there twice, or be lost."""

    PUBLISH = "publish"
    """Publish what waits: its messages may be there twice."""


@dataclass(frozen=True, slots=True)
class WithoutMarker:
    """What the user has said about epochs whose marker is lost.

    Attributes:
        otherwise: what to do where nothing was said.
        published_up_to: up to which epoch messages are there, by transactional id; under None, of all other ids.
    """

    otherwise: MissingMarker = MissingMarker.FAIL
    published_up_to: Mapping[str | None, int] = field(default_factory=dict)

    def last_published(self, transactional_id: str, epoch: int, waiting: Sequence[int]) -> int | None:
        """The epoch that counts as published last under an id, whose marker is gone.

        What was said is about the epochs that waited then. It answers for no others: a marker that is lost a second
        time would not be missed.

        Args:
            transactional_id: the id.
            epoch: the epoch that is to be published.
            waiting: those that waited when the job was started.

        Returns:
            None when nobody knows.
        """
        said = self._said_of(transactional_id)
        if said is not None and epoch in waiting and waiting[0] - 1 <= said <= waiting[-1]:
            return said
        return epoch - 1 if self.otherwise is MissingMarker.PUBLISH else None

    def advice(self, transactional_id: str, epoch: int, waiting: Sequence[int]) -> str:
        """What to do when nobody knows; arguments as for :meth:`last_published`."""
        if epoch not in waiting:
            return "Start the job again: it says then which epochs wait, and what to do"
        said = self._said_of(transactional_id)
        beside = "" if said is None else f" set_published_up_to({said}) is about epochs before these."
        return (
            f"These epochs wait: {', '.join(map(str, waiting))}.{beside} Look which of their messages are there; then "
            f"say which epoch is the last one that is, set_published_up_to({waiting[-1]}) if all of them are and "
            f"set_published_up_to({waiting[0] - 1}) if none is; or have what waits be published, perhaps again, with "
            "set_missing_marker(MissingMarker.PUBLISH)"
        )

    def _said_of(self, transactional_id: str) -> int | None:
        return self.published_up_to.get(transactional_id, self.published_up_to.get(None))
