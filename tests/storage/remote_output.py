"""Small jobs whose output is on a remote store, and whose checkpoint directory is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.connectors.file_system.staging import StagingArea
from headrace.storage.files import FileStatus, FileStore
from headrace.storage.locations import file_system_of, open_path
from tests.reliability.support.file_sinks import Kind
from tests.reliability.support.small_jobs import SmallJob, WatchedSink, expected
from tests.storage.remote_job import keys_of
from tests.storage.stores import Store


class RemoteOutput:
    """A place on a store that jobs write to.

    Args:
        store: the store.
        folder: where checkpoints are.

    Attributes:
        uri: the place.
        options: what a client has to be told.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self.uri, self.options = f"{store.new_place()}/out", store.options()
        self._folder = folder
        scheme, _, authority, _ = self.uri.split("/", 3)
        self.place = f"{scheme}//{authority}"

    @property
    def staging(self) -> StagingArea:
        return StagingArea(*open_path(self.uri, self.options), "a")

    def read(self, path: str) -> bytes:
        staging = self.staging
        return b"".join(staging.file_system.blocks(f"{staging.base}/{path}"))

    def remove(self, path: str) -> None:
        staging = self.staging
        staging.file_system.remove(f"{staging.base}/{path}")

    def files(self) -> list[str]:
        """All files, by what comes behind the sink's path."""
        staging = self.staging
        return [path[len(staging.base) + 1 :] for path, _ in staging.file_system.walk(staging.base, lambda _: True)]

    def objects(self) -> dict[str, FileStatus]:
        store = FileStore(file_system_of(self.place, self.options))
        found = {path: store.status(f"{self.uri}/{path}") for path in self.files()}
        return {path: status for path, status in found.items() if status is not None}

    def visible(self) -> dict[str, FileStatus]:
        return {path: status for path, status in self.objects().items() if not path.startswith(".")}

    def job(self, kind: Kind, before: Any = None, after: Any = None, pause: float = 0.0, **more: str) -> SmallJob:
        settings = keys_of(self.options) | {"restart-strategy.exponential-delay.initial-backoff": "100 ms"} | more
        hooks = {name: hook for name, hook in (("before", before), ("after", after)) if hook is not None}
        return SmallJob(self._folder, WatchedSink(kind.make(self.uri), **hooks), settings, pause)  # type: ignore[arg-type]

    def check(self, kind: Kind) -> None:
        """Every record is there once, and nothing is left that is hidden."""
        copy = self._folder / "copy"
        for path in self.files():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(self.read(path))
        assert kind.records(copy) == expected()
        assert self.objects() == self.visible()
