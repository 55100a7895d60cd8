"""Archives of jobs: the last status of each as a file of JSON, from which it is shown like one that runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.common import options
from headrace.common.configuration import Configuration, masked
from headrace.common.errors import HeadraceError
from headrace.common.logs import get_logger
from headrace.jobmanager.events import JobEvent
from headrace.jobmanager.status import JobListener, JobSnapshot
from headrace.jobmanager.status_document import snapshot_of_document, snapshot_to_document
from headrace.lineage.drawing import lineage_told
from headrace.reporters.sampler import driver_place
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

_STATUS: Final = "status"


@dataclass(frozen=True, slots=True)
class ToldJob:
    """All that is told of a job by others.

    Attributes:
        snapshot: its status.
        configuration: its configuration, with secrets masked.
        place: where it runs, or has run: ``host`` and ``tm_id``.
        lineage: its datasets and their flow; None where they are not told.
        at_work: the lines of the program that are at work, where an epoch takes long.
        waits_for: what it waits for before it begins; empty when it has begun.
    """

    snapshot: JobSnapshot
    configuration: Configuration
    place: Mapping[str, str]
    lineage: Mapping[str, Any] | None = None
    at_work: tuple[str, ...] = ()
    waits_for: str = ""


def to_document(
    snapshot: JobSnapshot,
    configuration: Configuration,
    lineage: Mapping[str, Any] | None,
    at_work: tuple[str, ...] = (),
    waits_for: str = "",
) -> dict[str, Any]:
    """What a process tells of its job, as JSON has it."""
    return {
        _STATUS: snapshot_to_document(snapshot),
        "configuration": masked(configuration.to_dict()),
        "place": driver_place(),
        "lineage": lineage,
        "at_work": at_work,
        "waits_for": waits_for,
    }


def of_document(document: Mapping[str, Any]) -> ToldJob:
    """What a document tells of a job.

    Raises:
        HeadraceError: when it is no such document, or of a later version.
    """
    if not isinstance(document.get(_STATUS), Mapping):
        raise HeadraceError("there is no status of a job in it")
    snapshot = snapshot_of_document(document[_STATUS])
    configuration = Configuration.from_dict(document["configuration"])
    at_work = tuple(document.get("at_work", ()))
    return ToldJob(
        snapshot, configuration, document["place"], document.get("lineage"), at_work, document.get("waits_for", "")
    )


def write_archive(folder: Folder, told: Mapping[str, Any]) -> None:
    """Write the archive of a job; one of an earlier run is replaced.

    Raises:
        OSError: when it cannot be written.
    """
    folder.make()
    folder.write(told[_STATUS]["job_id"], [json.dumps(told).encode()])


def read_archive(folder: Folder, job_id: str) -> ToldJob:
    """The archive of a job.

    Raises:
        FileNotFoundError: when there is none.
        HeadraceError: when it cannot be read.
    """
    try:
        document = json.loads(folder.read(job_id))
        if not isinstance(document, Mapping):
            raise ValueError("it is no object")
    except ValueError as error:
        raise HeadraceError(f"{folder.locate(job_id)} is no archive of a job: {error}") from None
    try:
        return of_document(document)
    except HeadraceError as error:
        raise HeadraceError(f"{folder.locate(job_id)}: {error}") from error


def archiving(location: str, configuration: Configuration) -> JobListener:
    """Who archives a job with a configuration at a location, when it has ended.

    Raises:
        ConfigurationError: when there can be no such place.
    """
    folder = open_storage(location, options=configuration.storage_options())
    fixed = configuration.get(options.FIXED_JOB_ID)

    def listen(_event: JobEvent, job: JobSnapshot) -> None:
        if job.status.is_terminal_state() and (job.job_id or fixed):
            known = job if job.job_id else replace(job, job_id=fixed or "")
            try:
                lineage = None if known.plan is None else lineage_told(known.plan)
                write_archive(folder, to_document(known, configuration, lineage))
            except Exception:  # the job has ended as it has, archived or not
                logger.warning("job %r cannot be archived in %s", job.name, folder, exc_info=True)

    return listen
