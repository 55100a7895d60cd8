"""``VersionRef``: what a manifest keeps of the state of one partition at the end of one epoch."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class VersionRef:
    """Names one version of the state of one partition of one stage.

    Attributes:
        stage: the stage that the task belongs to.
        partition: the partition of the stage.
        epoch: the epoch in which the version was written; later epochs that changed nothing keep it.
        name: the state file with the version's index; empty when the version is small and held in ``inline``.
        inline: the bytes that such a file would have; empty when there is one, or when there is no state at all.
        files: every file that the version needs, sorted; what no version needs may be deleted.
        shared: by uid, a digest of the broadcast state that the operator has in common with its other subtasks.
    """

    stage: int
    partition: int
    epoch: int
    name: str = ""
    inline: bytes = b""
    files: tuple[str, ...] = ()
    shared: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is no state at all."""
        return not self.name and not self.inline

    def to_json(self) -> dict[str, Any]:
        """The reference as JSON."""
        return {
            "stage": self.stage,
            "partition": self.partition,
            "epoch": self.epoch,
            "name": self.name,
            "packed": packed(self.inline),
            "files": list(self.files),
            **({"shared": dict(self.shared)} if self.shared else {}),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> VersionRef:
        """The reference that :meth:`to_json` described; formerly without digests."""
        return VersionRef(
            stage=data["stage"],
            partition=data["partition"],
            epoch=data["epoch"],
            name=data["name"],
            inline=_unpacked(data["packed"]),
            files=tuple(data["files"]),
            shared=tuple(sorted(data.get("shared", {}).items())),
        )


def packed(inline: bytes) -> str:
    """Compressed: half of a small version describes its layout, in the same words for all partitions."""
    return base64.b64encode(zlib.compress(inline, 1)).decode() if inline else ""


def _unpacked(packed: str) -> bytes:
    if not packed:
        return b""
    try:
        return zlib.decompress(base64.b64decode(packed))
    except zlib.error as error:
        raise ValueError(f"state inside cannot be unpacked: {error}") from error
