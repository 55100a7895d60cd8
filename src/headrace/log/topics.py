"""What topics are set to, by Kafka's names."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import expect
from headrace.common.config_values import choice, duration, memory_size
from headrace.common.errors import ConfigurationError
from headrace.common.other_names import alike

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

MAX_PARTITIONS: Final = 10_000

UNLIMITED: Final = -1

_COMPRESSIONS: Final = ("none", "lz4", "zstd")
_POLICIES: Final = ("delete", "compact", "compact,delete")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """How records of a topic are kept.

    Attributes:
        cleanup_policy: ``delete`` by time and size, ``compact`` to the latest value of each key, or ``compact,delete``.
        retention_ms: how long records are kept, by their timestamps; -1 for ever, which is the default here.
        retention_bytes: how large a partition may be; -1 without bounds.
        delete_retention_ms: how long a deletion (a value that is None) stays after it was compacted.
        min_compaction_lag_ms: how old a record has to be to be compacted.
        compression_type: ``none``, ``lz4`` or ``zstd``.
    """

    cleanup_policy: str = "delete"
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    compression_type: str = "lz4"

    @property
    def compacts(self) -> bool:
        """Whether only the latest value of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether records go by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def arrow_compression(self) -> str | None:
        """As Arrow calls it."""
        return None if self.compression_type == "none" else self.compression_type

    def with_settings(self, settings: Mapping[str, Any]) -> TopicConfig:
        """The same with some settings of their own.

        Args:
            settings: by Kafka's names, ``retention.ms`` say. Durations and sizes may have units: ``7 days``, ``1 gb``.

        Raises:
            ConfigurationError: when one is unknown or malformed.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for key, value in settings.items():
            name = key.replace(".", "_")
            if name not in _READERS:
                known = sorted(each.replace("_", ".") for each in _READERS)
                raise ConfigurationError(
                    f"a topic has no setting {key!r}{alike(key, known)}; it has {', '.join(known)}"
                )
            try:
                values[name] = _READERS[name](str(value).strip())
            except ValueError as error:
                raise ConfigurationError(f"setting {key!r} of a topic is {value!r}; expected {error}") from error
        return TopicConfig(**values)

    def settings(self) -> dict[str, Any]:
        """All settings by Kafka's names."""
        return {field.name.replace("_", "."): getattr(self, field.name) for field in fields(self)}


def checked_topic(name: str) -> str:
    """A name, if a topic can have it.

    Raises:
        ConfigurationError: when it cannot.
    """
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a topic: 1 to 249 ASCII letters, digits, dots, hyphens and underscores"
        )
    return name


def checked_partitions(partitions: int) -> int:
    """A number of partitions, if a topic can have so many.

    Raises:
        ConfigurationError: when it cannot.
        InvalidTypeError: when it is no number.
    """
    expect(partitions, int, "the number of partitions of a topic")
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise ConfigurationError(f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}")
    return partitions


def _unlimited(read: Callable[[str], int]) -> Callable[[str], int]:
    return lambda text: UNLIMITED if text == str(UNLIMITED) else read(text)


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "cleanup_policy": choice(*_POLICIES),
    "retention_ms": _unlimited(duration),
    "retention_bytes": _unlimited(memory_size),
    "delete_retention_ms": duration,
    "min_compaction_lag_ms": duration,
    "compression_type": choice(*_COMPRESSIONS),
}
