"""A job as other processes know it: its status as a document of JSON, and archives of these.

A document has all that a snapshot knows but for the program itself: of its plan there is what can be shown, of errors
their class and message. Secrets are masked in it. Fields that a reader does not know are left out, and those that it
misses have their defaults, so that versions read each other's documents. An archive is the last document of a job, a
file from which it is shown like one that runs.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Any, Final

from headrace.checkpoint.manifest import Manifest
from headrace.common import errors, server_options
from headrace.common.configuration import Configuration, masked
from headrace.common.errors import HeadraceError
from headrace.common.logs import get_logger
from headrace.common.masking import without_secrets
from headrace.jobmanager.events import JobEvent
from headrace.jobmanager.metrics import MetricKey, SplitProgress, WatermarkProgress
from headrace.jobmanager.status import JobListener, JobSnapshot
from headrace.lineage.drawing import lineage_report
from headrace.plan.job_plan import JobPlan
from headrace.plan.plan_document import plan_of_document, plan_to_document
from headrace.reporters.sampler import driver_place
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

_FORMAT: Final = 1
"""Of the documents that are written; larger ones are of later versions, which may have changed what fields mean."""


@dataclass(frozen=True, slots=True)
class DescribedProgress(WatermarkProgress):
    """Event time in a job of another process.

    Attributes:
        reached: what :meth:`of_operators` gives.
    """

    reached: Mapping[MetricKey, int] = field(default_factory=dict)

    def of_operators(self) -> dict[MetricKey, int]:
        return dict(self.reached)


def snapshot_to_document(job: JobSnapshot) -> dict[str, Any]:
    """A snapshot as JSON has it."""
    plan = None if job.plan is None else plan_to_document(job.plan)
    start = None if job.start is None else replace(job.start, plan=None, operator_counters={})
    return {"format": _FORMAT, **_fields(replace(job, plan=None, start=start)), "plan": plan}


def snapshot_of_document(document: Mapping[str, Any]) -> JobSnapshot:
    """The snapshot of a document.

    Raises:
        HeadraceError: when it is of a later version, or no such document.
    """
    if document.get("format", 0) != _FORMAT:
        raise HeadraceError(
            f"the status of a job has format {document.get('format')!r}, and this version reads {_FORMAT}: use the "
            "version of headrace that has written it"
        )
    try:
        plan = None if document["plan"] is None else plan_of_document(document["plan"])
        reader = _DocumentReader(plan, document)
        found: JobSnapshot = reader.read(JobSnapshot, {**document, "plan": None})
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise HeadraceError(f"the status of a job cannot be read: {type(error).__name__}: {error}") from error
    start = found.start
    return replace(found, plan=plan, start=None if start is None else replace(start, plan=plan))


# --- to JSON ---------------------------------------------------------------------------------------------------------


def _written(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return without_secrets(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, BaseException):
        return {"class": type(value).__name__, "message": without_secrets(str(value))}
    if isinstance(value, WatermarkProgress):
        return {
            "reached": _written(value.of_operators()),
            "splits": _written(value.splits),
            "ended": sorted(value.ended),
            "clock": value.manifest.processing_time,
        }
    return _composite(value)


def _composite(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _written(each) for key, each in value.items()}
        return [[_written(key), _written(each)] for key, each in value.items()]
    if isinstance(value, frozenset):
        return sorted(map(_written, value))
    return [_written(each) for each in value]


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: _written(getattr(value, each.name)) for each in dataclasses.fields(value)}


# --- from JSON -------------------------------------------------------------------------------------------------------


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


class _DocumentReader:
    """Reads values of a document by their types.

    Args:
        plan: the plan of the job.
        document: the whole document.
    """

    def __init__(self, plan: JobPlan | None, document: Mapping[str, Any]) -> None:
        self._plan = plan
        self._document = document

    def read(self, hint: Any, value: Any) -> Any:
        """A value of a type."""
        if value is None or hint in (str, int, bool, object, Any):
            return value
        if hint is float:
            return float(value)
        if hint is WatermarkProgress:
            return self._progress(value)
        if isinstance(hint, type):
            return self._of_class(hint, value)
        return self._of_generic(typing.get_origin(hint), typing.get_args(hint), value)

    def _of_class(self, kind: type, value: Any) -> Any:
        if issubclass(kind, Enum):
            return kind[value]
        if issubclass(kind, BaseException):
            return _error(value)
        if dataclasses.is_dataclass(kind):
            hints = _hints(kind)
            known = [each.name for each in dataclasses.fields(kind) if each.name in value]
            return kind(**{name: self.read(hints[name], value[name]) for name in known})
        if issubclass(kind, tuple):  # a named one
            return kind(*map(self.read, _hints(kind).values(), value))
        raise TypeError(f"{kind.__name__} is nothing that a status consists of")

    def _of_generic(self, origin: Any, arguments: Sequence[Any], value: Any) -> Any:
        if origin in (types.UnionType, typing.Union):
            return self.read(next(each for each in arguments if each is not types.NoneType), value)
        if origin is typing.Literal:
            return value
        if issubclass(origin, Mapping):
            pairs = value.items() if isinstance(value, Mapping) else value
            return {self.read(arguments[0], key): self.read(arguments[1], each) for key, each in pairs}
        if issubclass(origin, frozenset):
            return frozenset(self.read(arguments[0], each) for each in value)
        if arguments[-1] is Ellipsis:
            return tuple(self.read(arguments[0], each) for each in value)
        return tuple(map(self.read, arguments, value))

    def _progress(self, value: Mapping[str, Any]) -> WatermarkProgress | None:
        if self._plan is None:
            return None
        latest = self._document["latest"]
        manifest = Manifest(
            epoch=latest["epoch"],
            generation=0,
            job_id=self._document["job_id"],
            job_name=self._document["name"],
            max_parallelism=self._plan.settings.max_parallelism,
            state_backend="",
            processing_time=value["clock"],
        )
        splits = tuple(self.read(SplitProgress, each) for each in value["splits"])
        reached = self.read(Mapping[MetricKey, int], value["reached"])
        return DescribedProgress(self._plan, manifest, splits, frozenset(value["ended"]), reached)


def _error(value: Mapping[str, str]) -> BaseException:
    """An error of the class that a name means in headrace; of another one that has the name and says the same."""
    name, message = value["class"], value["message"]
    known = getattr(errors, name, None)
    if isinstance(known, type) and issubclass(known, HeadraceError):
        kind: type[HeadraceError] = known
    else:
        kind = type(name, (HeadraceError,), {})
    made = kind.__new__(kind)
    made.args = (message,)
    return made


_STATUS: Final = "status"


@dataclass(frozen=True, slots=True)
class JobReport:
    """The report of a job to other processes.

    Attributes:
        snapshot: its status.
        configuration: its configuration, with secrets masked.
        place: where it runs, or has run: ``host`` and ``tm_id``.
        lineage: its datasets and their flow; None if unknown.
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
    """The report of a process on its job, as JSON."""
    return {
        _STATUS: snapshot_to_document(snapshot),
        "configuration": masked(configuration.to_dict()),
        "place": driver_place(),
        "lineage": lineage,
        "at_work": at_work,
        "waits_for": waits_for,
    }


def of_document(document: Mapping[str, Any]) -> JobReport:
    """The report of a document.

    Raises:
        HeadraceError: when it is no such document, or of a later version.
    """
    if not isinstance(document.get(_STATUS), Mapping):
        raise HeadraceError("there is no status of a job in it")
    snapshot = snapshot_of_document(document[_STATUS])
    configuration = Configuration.from_dict(document["configuration"])
    at_work = tuple(document.get("at_work", ()))
    return JobReport(
        snapshot, configuration, document["place"], document.get("lineage"), at_work, document.get("waits_for", "")
    )


def write_archive(folder: Folder, document: Mapping[str, Any]) -> None:
    """Write the archive of a job; one of an earlier run is replaced.

    Raises:
        OSError: when it cannot be written.
    """
    folder.make()
    folder.write(document[_STATUS]["job_id"], [json.dumps(document).encode()])


def read_archive(folder: Folder, job_id: str) -> JobReport:
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
    """The listener that archives a job when it has ended.

    Raises:
        ConfigurationError: when there can be no such place.
    """
    folder = open_storage(location, options=configuration.storage_options())
    fixed = configuration.get(server_options.FIXED_JOB_ID)

    def listen(_event: JobEvent, job: JobSnapshot) -> None:
        if job.status.is_terminal_state() and (job.job_id or fixed):
            known = job if job.job_id else replace(job, job_id=fixed or "")
            try:
                lineage = None if known.plan is None else lineage_report(known.plan)
                write_archive(folder, to_document(known, configuration, lineage))
            except Exception:  # the job has ended as it has, archived or not
                logger.warning("job %r cannot be archived in %s", job.name, folder, exc_info=True)

    return listen
