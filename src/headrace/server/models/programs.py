"""Programs, which Flink calls jars."""

from collections.abc import Mapping, Sequence

from headrace.server.wire import model, wire


@model
class JarEntry:
    """What can be run of a program."""

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
    """How a program is to be run; all may be left out."""

    entry_class: str = wire("entryClass")
    program_args: str = wire("programArgs")
    program_args_list: Sequence[str] = wire("programArgsList")
    parallelism: int
    job_id: str = wire("jobId")
    savepoint_path: str = wire("savepointPath")
    allow_non_restored_state: bool = wire("allowNonRestoredState")
    claim_mode: str = wire("claimMode")
    flink_configuration: Mapping[str, str] = wire("flinkConfiguration")
