"""Small jobs whose checkpoint directory is on a remote storage, and whose output is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from tests.reliability.support.file_sinks import by_name
from tests.reliability.support.small_jobs import SmallJob, WatchedSink, expected

CSV = by_name("csv-rolled-by-size")


class RemoteJob:
    """One small job with its place and its output.

    Args:
        location: the checkpoint directory.
        options: how it is reached.
        folder: where the output is.
    """

    def __init__(self, location: str, options: Mapping[str, str], folder: Path) -> None:
        self.location = location
        self.options = dict(options)
        self.output = folder / "output"
        self.settings: dict[str, str] = {}
        self._folder = folder

    @property
    def directory(self) -> Folder:
        return open_storage(self.location, options=self.options)

    def job(self, sink: WatchedSink | None = None, pause: float = 0.0, **more: str) -> SmallJob:
        settings = {"execution.checkpointing.dir": self.location, **keys_of(self.options | more), **self.settings}
        settings["restart-strategy.exponential-delay.initial-backoff"] = "100 ms"
        return SmallJob(self._folder, sink or WatchedSink(CSV.make(self.output)), settings, pause)

    def run_at_last(self, stop_after: int | None) -> list[OSError]:
        """Run as often as it takes; gives what it failed with."""
        failures: list[OSError] = []
        while len(failures) < 10:
            try:
                self.job().run(stop_after)
            except OSError as error:
                failures.append(error)
            else:
                return failures
        raise AssertionError(f"it does not come to its end: {failures}")

    def check(self) -> None:
        assert CSV.records(self.output) == expected()

    def epochs(self) -> int:
        """The number of the newest manifest."""
        names = self.directory.folder("manifests").names()
        return max((int(name[:12]) for name in names if name != "newest"), default=0)


def keys_of(options: Mapping[str, str]) -> dict[str, str]:
    """The keys of a configuration that say the same as options of a storage."""
    return {
        f"headrace.storage.{name if name.startswith(('dfs.', 'fs.')) else name.replace('_', '-')}": value
        for name, value in options.items()
    }
