"""The ``headrace`` command: its sub-commands and their options.

Each imports what it needs when it runs, so that ``run`` has Java started before anything else is imported.
"""

import platform as machine
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import headrace
from headrace.cli import job_commands
from headrace.cli.cluster import cluster_app
from headrace.cli.kafka import kafka
from headrace.cli.log import log_app
from headrace.cli.schemas import schemas_app
from headrace.cli.settings import (
    Definitions,
    JobManagerAddress,
    LineageFormat,
    Parallelism,
    PlanFormat,
    PropertiesFile,
    configuration_of,
    job_settings,
    pairs_of,
    with_rest,
)
from headrace.cli.state import state_app
from headrace.common import options, server_options
from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError

_SHOW: Final = "show"
_REST: Final = "--rest"


class _Commands(TyperGroup):
    """All commands: an error of any is reported in one way, and has its exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (HeadraceError, OSError, KeyboardInterrupt) as error:
            from headrace.cli.output import exit_code_of

            raise typer.Exit(exit_code_of(error)) from None


class _MayBeServed(TyperCommand):
    """``--rest`` alone is ``--rest=`` with nothing behind it: no other option takes a value that may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        script = self._script(args)
        own = [f"{_REST}=" if each == _REST else each for each in args[:script]]
        return super().parse_args(ctx, [*own, *args[script:]])

    def _script(self, args: list[str]) -> int:
        """The place of the program; what comes behind it is its own."""
        values = {name for param in self.params if not getattr(param, "is_flag", True) for name in param.opts}
        place = 0
        while place < len(args) and args[place].startswith("-"):
            place += 2 if args[place] in values - {_REST} else 1
        return place


class _ShowsByDefault(TyperGroup):
    """``headrace checkpoints DIR`` is ``headrace checkpoints show DIR``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and "--help" not in args:
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


checkpoints_app = typer.Typer(
    cls=_ShowsByDefault,
    help="Show what a checkpoint directory DIR holds, or convert it from the format of an earlier version.",
    no_args_is_help=True,
)

app = typer.Typer(
    cls=_Commands,
    help="Apache Flink's programming model and guarantees, in Python, on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(checkpoints_app, name="checkpoints")
app.add_typer(cluster_app, name="cluster")
app.add_typer(kafka, name="kafka")
app.add_typer(log_app, name="log")
app.add_typer(schemas_app, name="schemas")
app.add_typer(state_app, name="state")


def _show_version_and_exit(wanted: bool) -> None:
    if wanted:
        show_version()
        raise typer.Exit


# Everything after the script belongs to the script, options too, as with python, spark-submit and flink run
_PROGRAM = {"allow_interspersed_args": False, "ignore_unknown_options": False}

Script = Annotated[
    Path, typer.Argument(metavar="SCRIPT", exists=True, dir_okay=False, help="The program, a Python file.")
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="Arguments of the program.")]
Master = Annotated[
    str | None, typer.Option(help="The master of the Spark session, such as local[4] or spark://host:7077.")
]
Runtime = Annotated[str | None, typer.Option(metavar="spark|local", help="What executes the job.")]
CheckpointDir = Annotated[str | None, typer.Option(metavar="DIR", help="Where the job's checkpoints are kept.")]
NonRestored = Annotated[
    bool,
    typer.Option(
        "-n", "--allow-non-restored-state", help="Leave behind what the checkpoint holds of operators that are gone."
    ),
]
Directory = Annotated[str, typer.Argument(metavar="DIR", help="The directory, or its URI on an object store.")]
FromSavepoint = Annotated[
    str | None, typer.Option("-s", "--from-savepoint", metavar="DIR", help="A savepoint that the job starts from.")
]
UidMapping = Annotated[
    list[str] | None,
    typer.Option("--map-uid", metavar="OLD=NEW", help="The program's uid of what is stored under another."),
]
OnChangedWindows = Annotated[
    list[str] | None,
    typer.Option(
        "--changed-windows",
        metavar="UID=drop|reaggregate",
        help="What becomes of what windows hold that are declared otherwise now.",
    ),
]
ClaimMode = Annotated[
    str | None, typer.Option("--claim-mode", metavar="no_claim|claim", help="Whose that savepoint is from then on.")
]
Version = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=_show_version_and_exit, help="Show the versions."),
]
Rest = Annotated[
    str | None,
    typer.Option(
        _REST,
        metavar="[HOST:PORT]",
        help="Serve the REST API; --rest alone at the first free port of this machine from 8081 on.",
    ),
]
Detached = Annotated[
    bool,
    typer.Option(
        "-d", "--detached", help="Give the program to a dispatcher (headrace cluster), and print the id of its job."
    ),
]
Progress = Annotated[
    bool | None, typer.Option("--progress/--no-progress", show_default=False, help="Whether to show progress.")
]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show errors with all that is known about them.")]


@app.callback()
def main(version: Version = False) -> None:
    """Apache Flink's programming model and guarantees, in Python, on Spark."""


@app.command(context_settings=_PROGRAM, cls=_MayBeServed)
def run(  # noqa: PLR0913, PLR0917 - an option is an argument
    script: Script,
    args: Arguments = None,
    parallelism: Parallelism = None,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
    master: Master = None,
    runtime: Runtime = None,
    checkpoint_dir: CheckpointDir = None,
    from_savepoint: FromSavepoint = None,
    claim_mode: ClaimMode = None,
    map_uid: UidMapping = None,
    changed_windows: OnChangedWindows = None,
    allow_non_restored_state: NonRestored = False,
    rest: Rest = None,
    detached: Detached = False,
    jobmanager: JobManagerAddress = None,
    progress: Progress = None,
    traceback: Traceback = False,
) -> None:
    """Run a program. Ctrl-C or SIGTERM stops its jobs at the end of an epoch; the same command goes on from there."""
    named = {
        options.PARALLELISM.key: None if parallelism is None else str(parallelism),
        options.SPARK_MASTER.key: master,
        options.RUNTIME.key: runtime,
        options.CHECKPOINT_DIR.key: checkpoint_dir,
        options.RECOVERY_PATH.key: from_savepoint,
        options.CLAIM_MODE.key: claim_mode,
        options.UID_MAPPING.key: ";".join(map_uid) if map_uid else None,
        options.CHANGED_WINDOWS.key: ";".join(changed_windows) if changed_windows else None,
        options.IGNORE_UNCLAIMED_STATE.key: "true" if allow_non_restored_state else None,
    }
    settings = with_rest(job_settings(define, properties_file, named), rest)
    if detached or jobmanager is not None:
        if rest is not None or progress is not None or traceback:
            raise typer.BadParameter(
                "a dispatcher serves its jobs, and logs them: leave out --rest, --progress and --traceback",
                param_hint="-d, -m",
            )
        from headrace.cli.cluster import submit_program

        submit_program(script, args or [], settings, jobmanager)
        return
    from headrace.cli.run import run_program

    raise typer.Exit(run_program(script, args or [], settings, progress=progress, full_traceback=traceback))


@app.command(context_settings=_PROGRAM)
def explain(  # noqa: PLR0913, PLR0917 - as above
    script: Script,
    args: Arguments = None,
    fmt: Annotated[PlanFormat, typer.Option("--format", help="How to show it.")] = "text",
    logical: Annotated[
        bool, typer.Option("--logical/--physical", help="The graph of the program, or how it would be run.")
    ] = False,
    parallelism: Parallelism = None,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
    traceback: Traceback = False,
) -> None:
    """Show the job that a program would run, without running it."""
    from headrace.cli.explain import explain_program

    named = {options.PARALLELISM.key: None if parallelism is None else str(parallelism)}
    settings = job_settings(define, properties_file, named)
    raise typer.Exit(explain_program(script, args or [], settings, fmt=fmt, logical=logical, full_traceback=traceback))


@app.command(context_settings=_PROGRAM)
def lineage(
    script: Script,
    args: Arguments = None,
    fmt: Annotated[LineageFormat, typer.Option("--format", help="How to show it.")] = "text",
    define: Definitions = None,
    properties_file: PropertiesFile = None,
    traceback: Traceback = False,
) -> None:
    """Show which datasets a program would read and write, and which columns come from which, without running it."""
    from headrace.cli.explain import show_lineage

    settings = job_settings(define, properties_file, {})
    raise typer.Exit(show_lineage(script, args or [], settings, fmt=fmt, full_traceback=traceback))


@app.command()
def topics(
    log: Annotated[
        str | None, typer.Argument(metavar="[LOG]", help="The folder of an embedded log, or its URI.")
    ] = None,
    kafka: Annotated[
        str | None, typer.Option("--kafka", metavar="HOST:PORT", help="The bootstrap servers of a cluster of Kafka.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="A setting of Kafka's client, by Kafka's name."),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds over which throughput and lag are compared.")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a document for programs.")] = False,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Show the throughput, size and retention of topics, and the lag and health of their consumer groups."""
    from headrace.cli.topics import run_topics

    configuration = configuration_of(define, properties_file)
    run_topics(log, kafka, pairs_of(config, "--config"), configuration, seconds, as_json=as_json)


@app.command()
def sql(  # noqa: PLR0913, PLR0917 - as above
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", exists=True, dir_okay=False, help="Execute the statements of a file, and end."),
    ] = None,
    init: Annotated[
        Path | None, typer.Option("-i", "--init", exists=True, dir_okay=False, help="Statements to begin with.")
    ] = None,
    parallelism: Parallelism = None,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
    master: Master = None,
    runtime: Runtime = None,
    checkpoint_dir: CheckpointDir = None,
    progress: Progress = None,
    traceback: Traceback = False,
) -> None:
    """Execute statements of SQL: those of a file, or one after the other at a prompt."""
    from headrace.cli.sql.command import run_sql
    from headrace.table.options import is_of_tables

    named = {
        options.PARALLELISM.key: None if parallelism is None else str(parallelism),
        options.SPARK_MASTER.key: master,
        options.RUNTIME.key: runtime,
        options.CHECKPOINT_DIR.key: checkpoint_dir,
    }
    of_tables = [each for each in define or () if is_of_tables(each)]
    others = [each for each in define or () if each not in of_tables]
    settings = job_settings(others, properties_file, named)
    raise typer.Exit(run_sql(file, init, settings, of_tables, progress=progress, full_traceback=traceback))


@app.command()
def doctor(define: Definitions = None, properties_file: PropertiesFile = None, master: Master = None) -> None:
    """Look whether headrace can run here, and say what to do where it cannot."""
    from headrace.cli.install import run_doctor

    settings = Configuration.from_dict(job_settings(define, properties_file))
    raise typer.Exit(run_doctor(settings.spark_options(), master))


@app.command()
def failures(
    directory: Directory,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Show what the job of a checkpoint directory has failed with."""
    from headrace.cli.checkpoints import run_failures

    run_failures(directory, _storage_options(define, properties_file))


@app.command("history-server")
def history_server(
    archives: Annotated[
        str | None,
        typer.Option("--dir", metavar="DIR", help="Where archives are; historyserver.archive.fs.dir when left out."),
    ] = None,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Serve the archives of jobs that have ended, as the jobs were served while they ran, until Ctrl-C."""
    from headrace.cli.cluster import run_history_server

    settings = job_settings(define, properties_file, {server_options.HISTORY_DIRS.key: archives})
    run_history_server(Configuration.from_dict(settings))


for _name, _command in job_commands.COMMANDS.items():
    app.command(_name)(_command)


@checkpoints_app.command(_SHOW)
def show(directory: Directory, define: Definitions = None, properties_file: PropertiesFile = None) -> None:
    """Show what a checkpoint directory holds; `headrace checkpoints DIR` does as well."""
    from headrace.cli.checkpoints import run_checkpoints

    run_checkpoints(directory, _storage_options(define, properties_file))


@checkpoints_app.command("upgrade")
def upgrade_(
    directory: Directory,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long a job that runs there has to say so.")
    ] = 10.0,
    define: Definitions = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Convert what earlier versions have written, so that this one and later ones read it."""
    from headrace.cli.checkpoints import run_upgrade

    run_upgrade(directory, _storage_options(define, properties_file), timeout)


@app.command("package")
def package_(
    job: Annotated[
        Path, typer.Argument(metavar="JOB", exists=True, file_okay=False, help="The folder of the program.")
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="The archive; JOB.zip.")] = None,
    extra: Annotated[
        list[str] | None, typer.Option(metavar="EXTRA", help="An extra of headrace that the job needs: cloud, hdfs.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="VERSION", help="The executors' Python, such as 3.12, if it is another one.")
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(metavar="TAG", help="Theirs as wheels name it, such as manylinux_2_28_x86_64, if another one."),
    ] = None,
) -> None:
    """Put a job's modules, headrace and all packages that they need into one archive for a cluster without them."""
    from headrace.cli.install import run_package

    target = {"--python-version": python, "--platform": platform}
    run_package(job, output, extra or [], {name: value for name, value in target.items() if value})


@app.command("version")
def show_version() -> None:
    """Show the versions of headrace and of what it stands on."""
    others = ", ".join(f"{package} {_version(package)}" for package in ("pyspark", "pyarrow"))
    typer.echo(f"headrace {headrace.__version__} (Python {machine.python_version()}, {others})")


def _storage_options(define: list[str] | None, properties_file: Path | None) -> dict[str, str]:
    return configuration_of(define, properties_file).storage_options()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
