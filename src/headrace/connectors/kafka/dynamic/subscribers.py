"""Which streams a source reads."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.common.arguments import expect, refused
from headrace.common.errors import ConfigurationError
from headrace.common.other_names import alike
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.kafka.dynamic.metadata import checked_streams

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.connectors.kafka.dynamic.metadata import KafkaMetadataService, KafkaStream


class KafkaStreamSubscriber(ABC):
    """Says which streams are read, of those that a metadata service knows.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import KafkaStreamSubscriber
        >>> class NotOfTests(KafkaStreamSubscriber):
        ...     def get_subscribed_streams(self, kafka_metadata_service):
        ...         streams = kafka_metadata_service.get_all_streams()
        ...         return [each for each in streams if not each.stream_id.startswith("test-")]
    """

    @abstractmethod
    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> Collection[KafkaStream]:
        """The streams, and where they lie now."""


@hides_engine_of_methods
class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """Some streams.

    Args:
        stream_ids: their names.

    Raises:
        InvalidProgramError: when there are none.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import KafkaStreamSetSubscriber
        >>> print(KafkaStreamSetSubscriber({"payments"}))
        payments
    """

    def __init__(self, stream_ids: set[str]) -> None:
        given: object = stream_ids
        if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(x, str) for x in stream_ids):
            raise refused(f"stream ids are a set of names, not {stream_ids!r}")
        if not stream_ids:
            raise refused("no stream is to be read: the set of stream ids is empty")
        self._stream_ids = tuple(sorted(stream_ids))

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> Collection[KafkaStream]:
        found = kafka_metadata_service.describe_streams(self._stream_ids)
        for stream_id in self._stream_ids:
            if stream_id not in found:
                known = [each.stream_id for each in _all_streams(kafka_metadata_service)]
                raise ConfigurationError(f"the metadata service has no stream {stream_id!r}{alike(stream_id, known)}")
        return [found[stream_id] for stream_id in self._stream_ids]

    def __str__(self) -> str:
        return ", ".join(self._stream_ids)


@hides_engine_of_methods
class StreamPatternSubscriber(KafkaStreamSubscriber):
    """All streams in whose names a regular expression is found, now or later.

    Args:
        stream_pattern: the expression.

    Raises:
        InvalidProgramError: when it is none.
        InvalidTypeError: when it is no text.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import StreamPatternSubscriber
        >>> print(StreamPatternSubscriber("^payments-"))
        streams like ^payments-
    """

    def __init__(self, stream_pattern: str) -> None:
        expect(stream_pattern, str, "StreamPatternSubscriber")
        try:
            self._pattern = re.compile(stream_pattern)
        except re.error as error:
            raise refused(f"{stream_pattern!r} is no regular expression: {error}") from None

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> Collection[KafkaStream]:
        return [each for each in _all_streams(kafka_metadata_service) if self._pattern.search(each.stream_id)]

    def __str__(self) -> str:
        return f"streams like {self._pattern.pattern}"


def _all_streams(service: KafkaMetadataService) -> Collection[KafkaStream]:
    return checked_streams(service.get_all_streams(), service)
