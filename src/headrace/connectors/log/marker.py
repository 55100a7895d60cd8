"""Markers: which epoch of a sink was published last, beside the job's checkpoints.

The log says the same (what it knows of the sink's producer), unless an older copy of it has taken its place. So the two
are compared whenever a job goes on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CheckpointError

if TYPE_CHECKING:
    from headrace.log.state import ProducerState
    from headrace.storage.folder import Folder

_NAME: Final = "published.json"


class OutputMarker:
    """The marker of a sink.

    Args:
        folder: the sink's in the checkpoint directory; None outside of a job, where nothing is remembered.
        producer: the id under which the sink commits: job and sink.
        log: what users call the log.
    """

    def __init__(self, folder: Folder | None, producer: str, log: str) -> None:
        self._folder = folder
        self._producer = producer
        self._log = log

    def write(self, epoch: int) -> None:
        """Remember that an epoch is published.

        Raises:
            OSError: when that cannot be written.
        """
        if self._folder is not None:
            self._folder.make()
            document = {"producer": self._producer, "log": self._log, "epoch": epoch}
            self._folder.write(_NAME, (json.dumps(document).encode(),))

    def check(self, known: ProducerState | None) -> None:
        """See whether the log is as new as the marker.

        Args:
            known: what the log knows of this sink.

        Raises:
            CheckpointError: when it is not.
            OSError: when the marker cannot be read.
        """
        if self._folder is None:
            return
        try:
            document = json.loads(self._folder.read(_NAME))
        except FileNotFoundError:
            return
        if document["producer"] != self._producer or (known is not None and known.sequence >= document["epoch"]):
            return
        has = f"is at epoch {known.sequence} of this job" if known is not None else "knows nothing of this job"
        raise CheckpointError(
            f"{self._log} {has}, but its output up to epoch {document['epoch']} was published to {document['log']}, as "
            f"{self._folder.locate(_NAME)} says: an older copy of the log, or another log, has taken its place. Put "
            "the newest copy back; or, to go on without the output that is lost, remove that file"
        )

    def remove(self) -> None:
        """Forget it: the job has ended."""
        if self._folder is not None:
            self._folder.remove(_NAME)
