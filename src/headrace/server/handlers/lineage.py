"""What a job reads and writes: its datasets and their flow, and the topics among them."""

from typing import Any

from headrace.server.errors import conflict
from headrace.server.models.topics import JobTopics
from headrace.server.requests import RestRequest


def lineage(request: RestRequest) -> dict[str, Any]:
    """Return the datasets of a job with their fields, and what each field that is written is made of."""
    found = request.job().lineage()
    if found is None:
        raise conflict("the job has not begun yet, or was told of by a version that knew nothing of lineage")
    return dict(found)


def topics(request: RestRequest) -> JobTopics:
    """Return the topics that a job reads and writes, and who else reads them."""
    return request.job().topics()
