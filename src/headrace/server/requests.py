"""A request as handlers see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.common.logs import KeptLog
from headrace.server.errors import bad_request
from headrace.server.jobs import ServedJob, ServedJobs
from headrace.server.operations import Operations
from headrace.server.settings import RestSettings

if TYPE_CHECKING:
    from headrace.server.bodies import Upload
    from headrace.server.cluster.dispatcher import Dispatcher


@dataclass(frozen=True, slots=True)
class RestService:
    """The jobs and services that are served.

    Attributes:
        settings: the address, and the rules of access.
        jobs: the jobs.
        operations: what was triggered.
        refresh_millis: how often dashboards ask.
        address: the address that users open.
        dispatcher: what takes programs; None where jobs of this process are served, or archives.
        is_history: whether only archives are served.
        most_upload_bytes: the size of the largest program.
        log: the log of this process; None where it is not kept.
    """

    settings: RestSettings
    jobs: ServedJobs
    operations: Operations
    refresh_millis: int
    address: str = ""
    dispatcher: "Dispatcher | None" = None
    is_history: bool = False
    most_upload_bytes: int = 0
    log: KeptLog | None = None

    @property
    def takes_programs(self) -> bool:
        """True if programs can be uploaded."""
        return self.dispatcher is not None and self.dispatcher.takes_programs


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request to an endpoint.

    Attributes:
        service: what is served.
        parameters: the parts of the path that have a name.
        query: what follows the path.
        body: the object in the body; empty where there is none.
        upload: the file in the body, where there is one.
    """

    service: RestService
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    upload: "Upload | None" = None

    def job(self) -> ServedJob:
        """The job that the path names.

        Raises:
            RestError: when there is none.
        """
        return self.service.jobs.get(self.parameters["jobid"])

    def names(self, parameter: str) -> list[str]:
        """The names in a parameter behind the path, with commas between them; none where it is left out."""
        return [name for name in self.query.get(parameter, "").split(",") if name]

    def number(self, parameter: str, otherwise: int) -> int:
        """A number behind the path.

        Raises:
            RestError: when it is none.
        """
        text = self.query.get(parameter)
        if text is None:
            return otherwise
        if not text.isdecimal() or len(text) > 9:
            raise bad_request(f"{parameter}: expected a number, not {text!r}")
        return int(text)

    def text(self, name: str) -> str | None:
        """A text in the body; None where it is left out.

        Raises:
            RestError: when it is something else.
        """
        value = self.body.get(name)
        if value is not None and not isinstance(value, str):
            raise bad_request(f"{name}: expected a string, not {value!r}")
        return value

    def flag(self, name: str) -> bool:
        """A boolean in the body, false where it is left out.

        Raises:
            RestError: when it is something else.
        """
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            raise bad_request(f"{name}: expected true or false, not {value!r}")
        return bool(value)
