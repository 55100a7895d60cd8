"""Programs: uploading, listing and running them; only a dispatcher takes any."""

import shlex
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NoReturn

from headrace.common import options, server_options
from headrace.server.cluster.dispatcher import Dispatcher, WantedRun
from headrace.server.cluster.programs import Program
from headrace.server.errors import RestError, bad_request
from headrace.server.models.cluster import Empty
from headrace.server.models.jobs import JobPlanInfo
from headrace.server.requests import RestRequest
from headrace.server.vertices import plan_info
from headrace.server.wire import model, wire


@model
class JarEntry:
    """The entry point of a program."""

    name: str
    description: str | None


@model
class JarFile:
    """A program that was uploaded."""

    id: str
    name: str
    uploaded: int
    entry: Sequence[JarEntry]


@model
class JarList:
    """The programs that were uploaded."""

    address: str
    files: Sequence[JarFile]


@model
class JarUpload:
    """A program that has just been uploaded; the last part of the path is its id."""

    status: str
    filename: str


@model
class JarRun:
    """A job that will run."""

    jobid: str


@model
class JarRunRequest:
    """The parameters of a run of a program; all may be left out."""

    entry_class: str = wire("entryClass")
    program_args: str = wire("programArgs")
    program_args_list: Sequence[str] = wire("programArgsList")
    parallelism: int
    job_id: str = wire("jobId")
    savepoint_path: str = wire("savepointPath")
    allow_non_restored_state: bool = wire("allowNonRestoredState")
    claim_mode: str = wire("claimMode")
    flink_configuration: Mapping[str, str] = wire("flinkConfiguration")


def programs(request: RestRequest) -> JarList:
    """Return the programs that were uploaded; a process that serves its own jobs has none."""
    dispatcher = request.service.dispatcher
    if dispatcher is None:
        return JarList("", ())
    dispatcher.check_leads()
    return JarList(request.service.address, [_jar_file(each) for each in dispatcher.programs.all()])


def _jar_file(program: Program) -> JarFile:
    entry = "main.py" if program.name.endswith(".zip") else program.name
    return JarFile(program.id, program.name, program.uploaded, [JarEntry(entry, None)])


def upload(request: RestRequest) -> JarUpload:
    """Take a program in: a script, an archive of `headrace package`, or statements of SQL."""
    dispatcher, file = _dispatcher(request), request.upload
    if file is None:
        raise bad_request("expected a file as multipart/form-data")
    return JarUpload("success", dispatcher.programs.add(file.name, file.blocks()).id)


def delete(request: RestRequest) -> Empty:
    """Remove a program; jobs that run it go on."""
    _dispatcher(request).programs.remove(request.parameters["jarid"])
    return Empty()


def run(request: RestRequest) -> JarRun:
    """Have a program run, and tell the id of its job."""
    return JarRun(_dispatcher(request).run(_wanted(request)))


def plan(request: RestRequest) -> JobPlanInfo:
    """Return the graph of the job that a program would run, without running it."""
    dispatcher = _dispatcher(request)
    return plan_info(dispatcher.plan(_wanted(request)), "0" * 32)


def plan_by_post(request: RestRequest) -> JobPlanInfo:
    """Return the same; the body says how the program would be run."""
    return plan(request)


def submit_graph(request: RestRequest) -> NoReturn:
    """Refuse a job graph of Java."""
    raise bad_request(
        "jars of Java cannot be run: start a Python program with `headrace run -d job.py`, or upload it (jars/upload)"
    )


def _dispatcher(request: RestRequest) -> Dispatcher:
    """The dispatcher, which has to lead, and to take programs.

    Raises:
        RestError: when there is none.
    """
    dispatcher = request.service.dispatcher
    if dispatcher is None:
        raise bad_request(
            "this process serves only its own jobs: start a dispatcher with `headrace cluster start`, which takes "
            "programs, or the program itself with `headrace run --rest job.py`"
        )
    if not dispatcher.takes_programs:
        raise RestError(HTTPStatus.FORBIDDEN, f"{server_options.WEB_SUBMIT.key} is false: no programs are taken here")
    dispatcher.check_leads()
    return dispatcher


def _wanted(request: RestRequest) -> WantedRun:
    """The run that is requested; Flink's page sends some of it behind the path, and numbers as texts."""
    behind = {_BEHIND_PATH[name]: value for name, value in request.query.items() if name in _BEHIND_PATH}
    given = {**behind, **{name: value for name, value in request.body.items() if value is not None}}
    settings = _settings(given)
    return WantedRun(
        request.parameters["jarid"],
        _arguments(given),
        settings,
        _text(given, "entryClass"),
        _text(given, "jobId") or None,
    )


_BEHIND_PATH: Final[Mapping[str, str]] = {
    "entry-class": "entryClass",
    "program-args": "programArgs",
    "parallelism": "parallelism",
    "savepointPath": "savepointPath",
    "allowNonRestoredState": "allowNonRestoredState",
}
"""The parameters that Flink's page sends behind the path, and their names in a body."""


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise bad_request(f"{name}: expected a string, not {value!r}")
    return value.strip()


def _arguments(given: Mapping[str, Any]) -> tuple[str, ...]:
    several = given.get("programArgsList")
    if several is not None:
        if not isinstance(several, list) or not all(isinstance(each, str) for each in several):
            raise bad_request(f"programArgsList: expected a list of strings, not {several!r}")
        return tuple(several)
    try:
        return tuple(shlex.split(_text(given, "programArgs")))
    except ValueError as error:
        raise bad_request(f"programArgs: {error}") from None


def _settings(given: Mapping[str, Any]) -> dict[str, str]:
    configuration = given.get("flinkConfiguration", {})
    if not isinstance(configuration, dict) or not all(isinstance(each, str) for each in configuration.values()):
        raise bad_request("flinkConfiguration: expected an object of strings")
    internal = sorted(key for key in configuration if key.startswith("$internal."))
    if internal:
        raise bad_request(f"flinkConfiguration: {internal[0]} is not for programs; jobId says the id of a job")
    claim = _text(given, "claimMode") or _text(given, "restoreMode")
    lenient = given.get("allowNonRestoredState", False)
    said = {
        options.PARALLELISM.key: _parallelism(given.get("parallelism")),
        options.RECOVERY_PATH.key: _text(given, "savepointPath"),
        options.CLAIM_MODE.key: claim,
        options.IGNORE_UNCLAIMED_STATE.key: "true" if lenient in (True, "true") else "",
    }
    return {**configuration, **{key: value for key, value in said.items() if value}}


def _parallelism(value: object) -> str:
    if value is None or value == "":
        return ""
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not int(text[:9]) > 0 or len(text) > 9:
        raise bad_request(f"parallelism: expected a number of subtasks, not {value!r}")
    return text
