"""What builders of sources and sinks of Kafka are told about their clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from headrace.common.arguments import refused
from headrace.common.call_site import warn_caller
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.kafka.clients.properties import SINK, check_properties, is_of_consumers

if TYPE_CHECKING:
    from typing import Self


@hides_engine_of_methods
class KafkaClientBuilder:
    """Puts something together that clients of Kafka read or write."""

    _name: ClassVar[str]
    """What is built, in errors."""
    _kind: ClassVar[str]
    """``SOURCE`` or ``SINK``."""

    def __init__(self) -> None:
        super().__init__()
        self._properties: dict[str, str] = {}

    def set_property(self, key: str, value: str) -> Self:
        """A setting of librdkafka, or of Java's clients where both know it.

        ``${env:NAME}``, ``${directory:/run/secrets:password}`` and ``${file:/etc/kafka.properties:password}`` stand for
        secrets, which are looked up where a client is made and are not part of the job.

        Raises:
            ConfigurationError: when it is for the source or sink itself to decide, or for Java alone.
            InvalidTypeError: when the value is neither text nor a number nor a boolean.
        """
        text = _text(key, value)
        try:
            check_properties({key: text}, self._kind)
        except ConfigurationError as error:
            raise refused(str(error), ConfigurationError) from None
        if self._kind == SINK and is_of_consumers(key):
            warn_caller(f"{key!r} has no effect on a sink: only consumers use it")
        self._properties[key] = text
        return self

    def set_properties(self, props: Mapping[str, str]) -> Self:
        """Several settings, see :meth:`set_property`."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def _check_servers(self) -> None:
        if "bootstrap.servers" not in self._properties:
            raise refused(f"a {self._name} needs set_bootstrap_servers('host:port')", ConfigurationError)


def _text(key: str, value: object) -> str:
    """The value of a setting, as librdkafka takes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value).lower()
    raise refused(f"set_property takes text for {key!r}, not {value!r}", InvalidTypeError)
