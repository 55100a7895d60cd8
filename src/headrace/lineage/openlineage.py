"""OpenLineage: events for a lineage service, on what a job reads and writes, that it runs, and how it has ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from headrace import __version__
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, JobSupersededError
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger, with_fields
from headrace.common.masking import without_secrets
from headrace.jobmanager.events import (
    EpochStatistics,
    JobEnd,
    JobEvent,
    JobStart,
)
from headrace.jobmanager.status import JobSnapshot
from headrace.lineage.graph import LineageField, LineageGraph, LineageVertex, lineage_of

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent

logger = get_logger(__name__)

_PRODUCER: Final = f"https://pypi.org/project/headrace/{__version__}"

_PARTING_SECONDS: Final = 5.0
"""The time that the last event of a job has to be sent; a service that takes longer is left behind."""

_OF_CLIENT: Final = "openlineage."

_ENDS: Final = {JobStatus.FINISHED: "COMPLETE", JobStatus.SUSPENDED: "COMPLETE", JobStatus.FAILED: "FAIL"}


def open_lineage_of(configuration: Configuration) -> OpenLineageListener:
    """Return the listener that reports a job to OpenLineage, by the transport that the configuration names.

    Raises:
        ConfigurationError: when the client is not installed, or its configuration is wrong.
    """
    try:
        from openlineage.client import OpenLineageClient
    except ImportError as error:
        raise ConfigurationError(
            f"{options.OPENLINEAGE_TRANSPORT.key} needs the client of OpenLineage: pip install 'headrace[openlineage]'"
        ) from error
    try:
        client = OpenLineageClient(config=_nested(configuration))
    except Exception as error:
        raise ConfigurationError(f"the client of OpenLineage refuses its configuration: {error}") from error
    return OpenLineageListener(client, configuration)


def _nested(configuration: Configuration) -> dict[str, Any]:
    """The configuration of the client: ``openlineage.transport.url`` is ``{"transport": {"url": …}}``.

    As where the client reads its environment, a value that is JSON is what it says: a number, true, false.
    """
    nested: dict[str, Any] = {}
    for key, value in configuration.to_dict().items():
        if not key.startswith(options.OPENLINEAGE_NAMESPACE):
            continue
        *path, last = key.removeprefix(_OF_CLIENT).split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = _parsed(value)
    return nested


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class OpenLineageListener:
    """Sends the events of one run of a job, in a thread of its own, so that no epoch waits for a service.

    ``START`` comes with the first epoch, ``RUNNING`` again and again, and in the end ``COMPLETE``, ``FAIL`` or
    ``ABORT``. All of them name inputs and outputs. An event that cannot be sent is logged, and the job goes on.

    Args:
        client: the client.
        configuration: the job's.
    """

    def __init__(self, client: OpenLineageClient, configuration: Configuration) -> None:
        self._client = client
        self._namespace = configuration.get(options.OPENLINEAGE_JOB_NAMESPACE)
        self._name = configuration.get(options.OPENLINEAGE_JOB)
        self._interval = configuration.get(options.OPENLINEAGE_INTERVAL) * 1000
        self._sent_at = 0
        self._graph = LineageGraph("", (), ())
        self._is_batch = False
        self._events: SimpleQueue[RunEvent | None] = SimpleQueue()
        self._thread = threading.Thread(target=with_fields(self._send), name="headrace-openlineage", daemon=True)

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to the job."""
        now = job.history[-1].time if isinstance(event, JobStart | JobEnd) else _millis()
        if isinstance(event, JobStart) and event.plan is not None:
            self._graph, self._is_batch = lineage_of(event.plan), event.plan.settings.is_batch
            self._thread.start()
            self._add("START", job, now)
        elif not self._thread.is_alive():
            return
        elif isinstance(event, EpochStatistics) and now - self._sent_at >= self._interval:
            self._add("RUNNING", job, now)
        elif isinstance(event, JobEnd):
            is_lost = isinstance(event.error, JobSupersededError)
            self._add("ABORT" if is_lost else _ENDS.get(event.status, "ABORT"), job, now, event.error)
            self._events.put(None)
            self._thread.join(_PARTING_SECONDS)

    def _add(self, state: str, job: JobSnapshot, now: int, error: BaseException | None = None) -> None:
        from openlineage.client.event_v2 import RunEvent, RunState

        self._sent_at = now
        self._events.put(
            RunEvent(
                eventTime=datetime.fromtimestamp(now / 1000, UTC).isoformat(),
                eventType=RunState[state],
                run=_run(job, error),
                job=self._job(job),
                inputs=[*_inputs(self._graph)],
                outputs=[*_outputs(self._graph)],
                producer=_PRODUCER,
            )
        )

    def _job(self, job: JobSnapshot) -> Job:
        from openlineage.client.event_v2 import Job
        from openlineage.client.facet_v2 import job_type_job

        processing = "BATCH" if self._is_batch else "STREAMING"
        kind = job_type_job.JobTypeJobFacet(
            processingType=processing, integration="HEADRACE", jobType="JOB", producer=_PRODUCER
        )
        return Job(namespace=self._namespace, name=self._name or job.name, facets={"jobType": kind})

    def _send(self) -> None:
        while (event := self._events.get()) is not None:
            try:
                self._client.emit(event)
            except Exception as error:
                logger.warning("the job cannot be reported to OpenLineage: %s", error)


def _millis() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def _run(job: JobSnapshot, error: BaseException | None) -> Run:
    from openlineage.client.event_v2 import Run
    from openlineage.client.facet_v2 import error_message_run, processing_engine_run

    engine = processing_engine_run.ProcessingEngineRunFacet(
        version=__version__, name="headrace", openlineageAdapterVersion=__version__, producer=_PRODUCER
    )
    facets: dict[str, Any] = {"processing_engine": engine}
    if error is not None and job.status is JobStatus.FAILED:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=without_secrets(str(error)), programmingLanguage="python", producer=_PRODUCER
        )
    return Run(runId=str(UUID(job.run_id)), facets=facets)


def _inputs(graph: LineageGraph) -> Iterator[InputDataset]:
    from openlineage.client.event_v2 import InputDataset

    for source in graph.sources:
        for dataset in source.datasets:
            yield InputDataset(namespace=dataset.namespace, name=dataset.name, facets={"schema": _schema(source)})


def _outputs(graph: LineageGraph) -> Iterator[OutputDataset]:
    from openlineage.client.event_v2 import OutputDataset

    for sink in graph.sinks:
        for dataset in sink.datasets:
            facets: dict[str, Any] = {"schema": _schema(sink)}
            if known := _column_lineage(sink.fields):
                facets["columnLineage"] = known
            yield OutputDataset(namespace=dataset.namespace, name=dataset.name, facets=facets)


def _schema(vertex: LineageVertex) -> Any:
    from openlineage.client.facet_v2 import schema_dataset

    fields = [schema_dataset.SchemaDatasetFacetFields(name=each.name, type=each.type) for each in vertex.fields]
    return schema_dataset.SchemaDatasetFacet(fields=fields, producer=_PRODUCER)


def _column_lineage(fields: tuple[LineageField, ...]) -> Any:
    """The facet of the fields whose origins are known; None where there are none."""
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    def input_field(dataset: Mapping[str, str], name: str, *, is_same: bool) -> Any:
        how = facet.Transformation(type="DIRECT", subtype="IDENTITY" if is_same else "TRANSFORMATION")
        return facet.InputField(field=name, transformations=[how], **dataset)

    known = {
        field.name: facet.Fields(
            inputFields=[
                input_field(
                    {"namespace": each.dataset.namespace, "name": each.dataset.name}, each.field, is_same=each.is_same
                )
                for each in field.origins
            ]
        )
        for field in fields
        if field.origins
    }
    return facet.ColumnLineageDatasetFacet(fields=known, producer=_PRODUCER) if known else None
