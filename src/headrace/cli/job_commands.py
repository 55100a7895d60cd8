"""The commands to jobs of other processes: ``headrace list``, ``info``, ``stop`` and the like.

They import what they need when they run.
"""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.settings import (
    Definitions,
    JobManagerAddress,
    PropertiesFile,
    SavepointKind,
    configuration_of,
)

if TYPE_CHECKING:
    from headrace.cli.jobs import AddressedJob

JobOrDirectory = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB|DIR]",
        help="The job: its id, or its checkpoint directory. The only job that is served on this machine when left out.",
    ),
]
JobId = Annotated[
    str | None,
    typer.Argument(metavar="[JOB]", help="The id of the job; the only one that is served when left out."),
]
Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]",
        help="Where it is made; execution.checkpointing.savepoint-dir, given here or by the job, when left out.",
    ),
]
SavepointType = Annotated[
    SavepointKind | None,
    typer.Option(
        "--type",
        metavar="canonical|native",
        case_sensitive=False,
        help="Files of its own, or references to the checkpoint; canonical when left out.",
    ),
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long the job has, twice: to accept it, and to execute it.")
]


def _addressed(
    job: JobOrDirectory = None,
    jobmanager: JobManagerAddress = None,
    timeout: Timeout = 600.0,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> "AddressedJob":
    """The job that a command is about: its arguments are those of all such commands."""
    from headrace.cli.jobs import addressed_job

    return addressed_job(job, jobmanager, configuration_of(define, properties_file), timeout)


def _on_job(command: Callable[..., str]) -> Callable[..., None]:
    """A command with the arguments of :func:`_addressed` and its own, which prints the outcome."""
    job, *shared = signature(_addressed).parameters.values()
    _, *own = signature(command).parameters.values()

    def run(**given: Any) -> None:
        addressed = _addressed(**{each.name: given.pop(each.name) for each in (job, *shared)})
        _print(command(addressed, **given))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (job, *own, *shared)]
    vars(run)["__signature__"] = Signature(parameters)  # where typer finds them
    return run


def list_(
    jobmanager: JobManagerAddress = None,
    running: Annotated[bool, typer.Option("-r", "--running", help="Only those that run or restart.")] = False,
    every: Annotated[bool, typer.Option("-a", "--all", help="Those that have ended, too.")] = False,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """List the jobs of a server, or all that are served on this machine."""
    from headrace.cli.jobs import run_list

    run_list(jobmanager, configuration_of(define, properties_file), running=running, every=every)


def info(
    job: JobId = None,
    jobmanager: JobManagerAddress = None,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Show how a job that is served fares, with its operators."""
    from headrace.cli.jobs import run_info

    run_info(job, jobmanager, configuration_of(define, properties_file))


def logs(
    job: JobId = None,
    jobmanager: JobManagerAddress = None,
    printed: Annotated[bool, typer.Option("--stdout", help="What the program has printed, and not its log.")] = False,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Print the log of a job of a dispatcher, while it runs and afterwards."""
    from headrace.cli.jobs import run_logs

    run_logs(job, jobmanager, configuration_of(define, properties_file), printed=printed, follow=follow)


def dashboard(
    flink_web: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            exists=True,
            help="Flink's web UI: the jar flink-runtime-web-2.3.0.jar of Maven Central, or its folder web.",
        ),
    ],
    jobmanager: JobManagerAddress = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it is shown on this machine.")] = 8090,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Show jobs that are served in Flink's own web UI, until Ctrl-C."""
    from headrace.cli.jobs import run_dashboard

    run_dashboard(flink_web, jobmanager, configuration_of(define, properties_file), port)


def savepoint(  # noqa: PLR0913, PLR0917 - an option is an argument
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB|DIR]",
            help="The job: its id, or its checkpoint directory; with --dispose, the savepoint. The only job that is "
            "served on this machine when left out.",
        ),
    ] = None,
    target: Target = None,
    kind: SavepointType = None,
    dispose: Annotated[bool, typer.Option("--dispose", "-d", help="Remove the savepoint DIR.")] = False,
    jobmanager: JobManagerAddress = None,
    timeout: Timeout = 600.0,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Have a running job take a savepoint, and print where it is; or dispose of one."""
    from headrace.cli.savepoint import run_dispose

    if dispose:
        if job is None or target is not None or kind is not None or jobmanager is not None:
            raise typer.BadParameter("it removes the savepoint DIR: give nothing else", param_hint="--dispose")
        run_dispose(job, configuration_of(define, properties_file))
        return
    _print(_addressed(job, jobmanager, timeout, define, properties_file).savepoint(target, kind))


@_on_job
def stop(
    job: "AddressedJob",
    savepoint_path: Annotated[
        str | None,
        typer.Option(
            "--savepoint-path",
            "-p",
            metavar="DIR",
            help="Where a savepoint is made; execution.checkpointing.savepoint-dir, given here or by the job, when "
            "left out. Where neither says it there is none, or, with a job that is named by its id, an error.",
        ),
    ] = None,
    kind: SavepointType = None,
    drain: Annotated[
        bool, typer.Option("--drain", "-d", help="End all sources first, so that all windows and timers fire.")
    ] = False,
) -> str:
    """Stop a running job at the end of its epoch, with a savepoint where there is a place for it."""
    return job.stop(savepoint_path, kind, drains=drain)


@_on_job
def cancel(job: "AddressedJob") -> str:
    """Cancel a running job; it gives up the epoch that runs, or, named by its directory, ends behind it."""
    return job.cancel()


@_on_job
def checkpoint(job: "AddressedJob") -> str:
    """Have a running job complete an epoch, and so a checkpoint, at once, and print its number."""
    return job.checkpoint()


@_on_job
def release(job: "AddressedJob") -> str:
    """Have a running job publish the epoch that it holds back since records violate an expectation."""
    return job.release()


@_on_job
def rescale(
    job: "AddressedJob",
    parallelism: Annotated[
        int, typer.Option("-p", "--parallelism", min=1, help="Subtasks of operators that do not say otherwise.")
    ],
) -> str:
    """Have a running job go on at another parallelism, from the end of its epoch; its session stays."""
    return job.rescale(parallelism)


def _print(outcome: str) -> None:
    from rich.text import Text

    from headrace.cli.output import output

    output().print(Text(outcome), soft_wrap=True)


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "list": list_,
    "info": info,
    "logs": logs,
    "dashboard": dashboard,
    "savepoint": savepoint,
    "stop": stop,
    "cancel": cancel,
    "checkpoint": checkpoint,
    "release": release,
    "rescale": rescale,
}
"""All of them, by the names under which the command line has them."""
