"""Jobs that have ended, out of their archives; the same views show them as those that run."""

import re
import threading
import time
from collections.abc import Sequence
from typing import Final

from headrace.common import server_options as options
from headrace.common.completable_future import CompletableFuture
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.common.logs import get_logger
from headrace.jobmanager.status import JobSnapshot
from headrace.savepoint.metadata import SavepointFormat
from headrace.server.archives import read_archive
from headrace.server.errors import RestError, check_id, conflict, not_found
from headrace.server.jobs import ServedJob, ServedJobs
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")


class ArchivedControl:
    """A job that has ended, and does nothing any more.

    Args:
        snapshot: its last status.
    """

    def __init__(self, snapshot: JobSnapshot) -> None:
        self._snapshot = snapshot

    def snapshot(self) -> JobSnapshot:
        """Its last status."""
        return self._snapshot

    def cancel(self) -> CompletableFuture[None]:
        """Refused."""
        raise self._over()

    def stop(self, *, drain: bool = False) -> CompletableFuture[None]:
        """Refused."""
        raise self._over()

    def rescale(self, parallelism: int) -> CompletableFuture[None]:
        """Refused."""
        raise self._over()

    def release_epoch(self) -> int:
        """Refused."""
        raise self._over()

    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Refused."""
        raise self._over()

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, format_type: SavepointFormat = "canonical"
    ) -> CompletableFuture[str]:
        """Refused."""
        raise self._over()

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormat = "canonical",
    ) -> CompletableFuture[str]:
        """Refused."""
        raise self._over()

    def _over(self) -> RestError:
        return conflict(f"Job {self._snapshot.job_id} has ended, and this is its archive")


class ArchivedJobs(ServedJobs):
    """The jobs of some places, which are looked at again and again.

    Args:
        configuration: says where archives are, how often they are looked at, and how many are kept.

    Raises:
        ConfigurationError: when it does not say where.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        given = configuration.get(options.HISTORY_DIRS) or configuration.get(options.ARCHIVE_DIR)
        if not given:
            raise ConfigurationError(
                f"{options.HISTORY_DIRS.key} or {options.ARCHIVE_DIR.key} has to say where the archives of jobs are"
            )
        self._options = configuration.storage_options()
        self._folders = [open_storage(place.strip(), options=self._options) for place in given.split(",")]
        self._seconds = configuration.get(options.HISTORY_REFRESH) / 1000
        self._retained = configuration.get(options.HISTORY_RETAINED)
        self._known: dict[tuple[str, str], tuple[object, ServedJob | None]] = {}
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._look_again, name="headrace-history", daemon=True)

    def start(self) -> None:
        """Look at all places, and begin to do so again and again."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stops.set()

    def look(self) -> None:
        """Read the archives that have come or changed; those of which there are too many are removed."""
        found: dict[tuple[str, str], tuple[object, ServedJob | None]] = {}
        for folder in self._folders:
            try:
                names = [name for name in folder.names() if _JOB_ID.fullmatch(name)]
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                logger.warning("the archives in %s cannot be listed: %s", folder, error)
                continue
            found |= self._of_folder(folder, names)
        self._known = found

    def all(self) -> list[ServedJob]:
        """All jobs, in the order of their start; of several archives of a job the last one."""
        jobs = [job for _, job in list(self._known.values()) if job is not None]
        jobs.sort(key=lambda job: job.snapshot().history[0].time)
        return list({job.snapshot().job_id: job for job in jobs}.values())

    def get(self, job_id: str) -> ServedJob:
        """A job by its id.

        Raises:
            RestError: when there is none.
        """
        check_id("jobid", job_id)
        for job in self.all():
            if job.snapshot().job_id == job_id:
                return job
        raise not_found(f"Job {job_id} not found")

    def check_ready(self) -> None:
        """It always is: archives are read before they are served."""

    def storage_options(self) -> dict[str, str]:
        """Return how storages are reached."""
        return self._options

    def _look_again(self) -> None:
        while not self._stops.wait(self._seconds):
            began = time.monotonic()
            self.look()
            logger.debug("archives were looked at in %.3f s", time.monotonic() - began)

    def _of_folder(
        self, folder: Folder, names: Sequence[str]
    ) -> dict[tuple[str, str], tuple[object, ServedJob | None]]:
        entries = {name: folder.file_system.stat(f"{folder.path}/{name}") for name in names}
        newest_first = sorted(entries, key=lambda name: -(entry.mtime_ns if (entry := entries[name]) else 0))
        if self._retained >= 0:
            folder.remove_all(newest_first[self._retained :])
            newest_first = newest_first[: self._retained]
        return {(str(folder), name): self._read(folder, name, entries[name]) for name in newest_first}

    def _read(self, folder: Folder, name: str, version: object) -> tuple[object, ServedJob | None]:
        known = self._known.get((str(folder), name))
        if known is not None and known[0] == version:
            return known
        try:
            report = read_archive(folder, name)
        except (OSError, HeadraceError) as error:
            logger.warning("an archive is not shown: %s", error)
            return version, None
        return version, ServedJob(ArchivedControl(report.snapshot), report.configuration, report.place, report.lineage)


def history_settings(configuration: Configuration) -> Configuration:
    """The configuration of the server of archives: its port and address are its own."""
    changed = Configuration(configuration)
    port = str(configuration.get(options.HISTORY_PORT))
    changed.set(options.REST_PORT, port)
    changed.set(options.REST_BIND_PORT, port)
    address = configuration.get(options.HISTORY_ADDRESS)
    if address is not None:
        changed.set(options.REST_BIND_ADDRESS, address)
    return changed
