"""The actions of buttons: each has the user confirm it, calls the REST API, and shows the outcome."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from headrace.server.dashboard.job_view import JobView
from headrace.server.dashboard.jobs import DashboardJobs
from headrace.server.errors import RestError, bad_request, not_found

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """A request of the REST API: its method, its path below that of the job, what follows it, and its body."""

    method: str
    path: tuple[str, ...] = ()
    query: Mapping[str, object] | None = None
    body: Any = None


@dataclass(frozen=True, slots=True)
class JobAction:
    """The operation of a button on a job.

    Attributes:
        name: its name in addresses.
        button: what the button says.
        question: that to the user, before it is done.
        about: what it does, in a sentence or two.
        request: that to the REST API.
        outcome: the path below the job where the outcome of that is; None where there is nothing to wait for.
        fields: which fields of the form it has.
        is_destructive: whether it ends the job without a savepoint.
    """

    name: str
    button: str
    question: str
    about: str
    request: Callable[[Form], ActionRequest]
    outcome: str | None
    fields: frozenset[str] = frozenset()
    is_destructive: bool = False


def _savepoint(form: Form) -> ActionRequest:
    body = {"target-directory": _directory(form), "cancel-job": False, "formatType": _format(form)}
    return ActionRequest("POST", ("savepoints",), body=body)


def _stop(form: Form) -> ActionRequest:
    body = {"targetDirectory": _directory(form), "drain": form.get("drain") == "true", "formatType": _format(form)}
    return ActionRequest("POST", ("stop",), body=body)


def _checkpoint(_: Form) -> ActionRequest:
    return ActionRequest("POST", ("checkpoints",), body={"checkpointType": "CONFIGURED"})


def _rescale(form: Form) -> ActionRequest:
    text = form.get("parallelism", "").strip()
    if not text.isdecimal() or len(text) > 6 or int(text) < 1:
        raise bad_request(f"parallelism: a number of subtasks such as 4, not {text!r}")
    return ActionRequest("PATCH", ("rescaling",), {"parallelism": int(text)})


def _cancel(_: Form) -> ActionRequest:
    return ActionRequest("PATCH", query={"mode": "cancel"})


def _release(_: Form) -> ActionRequest:
    return ActionRequest("POST", ("held-epoch", "release"))


def _directory(form: Form) -> str | None:
    return form.get("directory", "").strip() or None


def _format(form: Form) -> str:
    return form.get("format", "CANONICAL")


ACTIONS: Final[Mapping[str, JobAction]] = {
    action.name: action
    for action in (
        JobAction(
            "release",
            "Release",
            "Publish the epoch that is held back?",
            "Sinks commit what it has written, and the job goes on.",
            _release,
            None,
        ),
        JobAction(
            "savepoint",
            "Savepoint",
            "Take a savepoint?",
            "At the end of the epoch that runs, while the job goes on. Another job, or another version of this one, "
            "can start from it.",
            _savepoint,
            "savepoints",
            frozenset({"directory", "format"}),
        ),
        JobAction(
            "checkpoint",
            "Checkpoint",
            "Complete a checkpoint now?",
            "An epoch is completed at once, though there may be nothing to read.",
            _checkpoint,
            "checkpoints",
        ),
        JobAction(
            "rescale",
            "Rescale",
            "Go on at another parallelism?",
            "From the end of the epoch that runs. Operators for which the program sets a parallelism keep it.",
            _rescale,
            "rescaling",
            frozenset({"parallelism"}),
        ),
        JobAction(
            "stop",
            "Stop",
            "Stop with a savepoint?",
            "The job ends at the end of the epoch that runs, and can go on from the savepoint.",
            _stop,
            "savepoints",
            frozenset({"directory", "format", "drain"}),
        ),
        JobAction(
            "cancel",
            "Cancel",
            "Cancel the job?",
            "The epoch that runs is given up, and no savepoint is taken. What is committed stays committed.",
            _cancel,
            None,
            is_destructive=True,
        ),
    )
}
"""By name, in the order of the buttons."""


def action_of(name: str) -> JobAction:
    """An action by its name.

    Raises:
        RestError: when there is none.
    """
    if name not in ACTIONS:
        raise not_found(f"there is no action {name!r}")
    return ACTIONS[name]


def begin(jobs: DashboardJobs, job: JobView, action: JobAction, form: Form) -> str:
    """Have something done.

    Returns:
        The id by which the outcome is requested; empty if there is nothing to wait for.

    Raises:
        HeadraceError: when it is refused.
    """
    request = action.request(form)
    answer = jobs.ask(request.method, ("jobs", job.id, *request.path), request.query, request.body)
    return str(answer["request-id"]) if action.outcome is not None else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an action: none yet, a result, or an error."""

    is_over: bool
    result: str = ""
    error: str = ""


def outcome(jobs: DashboardJobs, job_id: str, action: JobAction, trigger: str) -> Outcome:
    """Return the present outcome of an action.

    Raises:
        HeadraceError: when it is not known any more.
    """
    if action.outcome is None:
        return Outcome(True)
    found = jobs.ask("GET", ("jobs", job_id, action.outcome, trigger))
    if found["status"]["id"] != "COMPLETED":
        return Outcome(False)
    operation = found.get("operation") or {}
    failure = operation.get("failure-cause") or operation.get("failureCause")
    if failure:
        return Outcome(True, error=str(failure.get("stack-trace") or failure.get("class")))
    result = operation.get("location") or operation.get("checkpointId") or ""
    return Outcome(True, str(result))


class FormTokens:
    """Tokens of forms: only a client that has read a page of this server can send one of its forms."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def of(self, job_id: str) -> str:
        """The token of the forms of a job."""
        return hmac.new(self._secret, job_id.encode(), hashlib.sha256).hexdigest()

    def check(self, job_id: str, token: str) -> None:
        """See that a form comes from a page of this server.

        Raises:
            RestError: when it does not.
        """
        if not hmac.compare_digest(self.of(job_id).encode(), token.encode(errors="replace")):
            raise RestError(
                HTTPStatus.FORBIDDEN, "the form is of another server, or of one that has been started again: reload it"
            )
