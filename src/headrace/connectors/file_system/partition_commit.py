"""The commit of partitions of a file sink: when it happens, and how readers learn of it, by a file ``_SUCCESS``, say.

Flink's name for it is apt: all files of the partition have become visible by then. Rows that come later make the
partition pending again, so that it is committed once more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from headrace.storage.file_system import FileSystem


@dataclass(frozen=True)
class PartitionTrigger:
    """Decides when a partition is complete: at the end of the input at the latest.

    Attributes:
        delay: how long to wait after the time of the partition, in milliseconds.
        time_of: the time of a bucket, which the watermark has to pass by the delay. None to go by processing time, from
            the first row of the partition on.
        is_at_end: whether to wait for the end of the input in any case.
    """

    delay: int = 0
    time_of: Callable[[str], int] | None = None
    is_at_end: bool = False

    @property
    def takes_watermarks(self) -> bool:
        """Return whether event time decides."""
        return self.time_of is not None and not self.is_at_end

    def is_due(self, bucket: str, begun: int, now: int, watermark: int) -> bool:
        """Return whether a partition is complete.

        Args:
            bucket: the partition.
            begun: when its first row was written, in milliseconds.
            now: the clock.
            watermark: the watermark.
        """
        if self.is_at_end:
            return False
        if self.time_of is not None:
            return watermark > self.time_of(bucket) + self.delay
        return not self.delay or now > begun + self.delay


class PartitionCommitPolicy(ABC):
    """Tells readers that a partition is complete; picklable."""

    @abstractmethod
    def commit(self, file_system: FileSystem, folder: str) -> None:
        """Commit a partition; it may be called again for the same one.

        Args:
            file_system: the storage.
            folder: the folder of the partition.
        """


@dataclass(frozen=True)
class SuccessFile(PartitionCommitPolicy):
    """Creates an empty file in the folder.

    Attributes:
        name: its name.
    """

    name: str = "_SUCCESS"

    def commit(self, file_system: FileSystem, folder: str) -> None:
        file_system.put(f"{folder}/{self.name}", [])


@dataclass(frozen=True)
class PartitionCommit:
    """The commit of partitions (Flink's ``PartitionCommitTrigger`` and its policies).

    Attributes:
        trigger: decides when partitions are committed.
        policies: are called for each of them, one after the other.
    """

    trigger: PartitionTrigger
    policies: tuple[PartitionCommitPolicy, ...]
