"""``VersionRef``: what a manifest keeps of the state of one partition at the end of one epoch."""

from __future__ import annotations

import base64
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
    """

    stage: int
    partition: int
    epoch: int
    name: str = ""
    inline: bytes = b""
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The reference as JSON."""
        return {
            "stage": self.stage,
            "partition": self.partition,
            "epoch": self.epoch,
            "name": self.name,
            "inline": base64.b64encode(self.inline).decode(),
            "files": list(self.files),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> VersionRef:
        """The reference that :meth:`to_json` described."""
        return VersionRef(
            stage=data["stage"],
            partition=data["partition"],
            epoch=data["epoch"],
            name=data["name"],
            inline=base64.b64decode(data["inline"]),
            files=tuple(data["files"]),
        )
