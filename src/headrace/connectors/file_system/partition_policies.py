"""What the commit of a partition of files does: it tells readers that the partition is complete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from headrace.storage.file_system import FileSystem


class PartitionCommitPolicy(ABC):
    """What the commit of a partition does; picklable."""

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
