"""``headrace log``: the embedded log from a shell.

What it does is in a module that is imported when it runs.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

log_app = typer.Typer(help="Use a log of partitioned topics that lies in a folder.", no_args_is_help=True)

Location = Annotated[str, typer.Argument(metavar="LOG", help="The folder of the log, or its URI on an object store.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
OptionalTopic = Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic; all if left out.")]
Definitions = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting, of the storage say.", show_default=False)
]
TopicSettings = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="KEY=VALUE", help="A setting of the topic by Kafka's name: retention.ms=7d, say."),
]


class RecordFormat(StrEnum):
    """How records are shown."""

    TEXT = "text"
    JSON = "json"


@log_app.command()
def create(
    location: Location,
    topic: OptionalTopic = None,
    partitions: Annotated[int, typer.Option("-p", "--partitions", min=1, help="How many the topic has.")] = 1,
    config: TopicSettings = None,
    define: Definitions = None,
) -> None:
    """Make a log, unless it is there, and a topic in it."""
    _run("create", location, define, topic, partitions, config, create=True)


@log_app.command()
def append(
    location: Location,
    topic: Topic,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", exists=True, dir_okay=False, help="The standard input if left out."),
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--key-separator", metavar="TEXT", help="What stands between key and value of a line.")
    ] = None,
    define: Definitions = None,
) -> None:
    """Append lines, each a record."""
    _run("append", location, define, topic, file, separator)


@log_app.command()
def tail(
    location: Location,
    topic: Topic,
    count: Annotated[int, typer.Option("-n", "--records", min=0, help="How many of the last records to show.")] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as records come.")] = False,
    beginning: Annotated[bool, typer.Option("--from-beginning", help="Show all there are.")] = False,
    output: Annotated[
        RecordFormat, typer.Option("--format", help="Values alone, or all of a record.")
    ] = RecordFormat.TEXT,
    define: Definitions = None,
) -> None:
    """Show the last records of a topic, those of its partitions by their timestamps."""
    _run(
        "tail",
        location,
        define,
        topic,
        count=None if beginning else count,
        follow=follow,
        as_json=output is RecordFormat.JSON,
    )


@log_app.command()
def describe(location: Location, topic: OptionalTopic = None, define: Definitions = None) -> None:
    """Show topics, their settings and partitions."""
    _run("describe", location, define, topic)


@log_app.command()
def groups(
    location: Location,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="The group; all if left out.")] = None,
    define: Definitions = None,
) -> None:
    """Show consumer groups: who reads what, and how far behind."""
    _run("groups", location, define, group)


@log_app.command()
def transactions(location: Location, define: Definitions = None) -> None:
    """Show what waits for its commit: of which job and sink, or of which producer, since when, and how large it is."""
    _run("transactions", location, define)


@log_app.command()
def abandon(
    location: Location,
    name: Annotated[str, typer.Argument(metavar="JOB|ID", help="The job, or the transactional id of a producer.")],
    force: Annotated[bool, typer.Option("--force", help="Do it: it will never go on.")] = False,
    define: Definitions = None,
) -> None:
    """Remove what waits for the commit of a job or producer that is given up for good, and have nobody commit it."""
    _run("abandon", location, define, name, force=force)


@log_app.command()
def compact(
    location: Location,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="All if left out.")] = None,
    define: Definitions = None,
) -> None:
    """Delete by time and size, compact and merge all there is, and remove files that nobody needs."""
    _run("compact", location, define, topics)


@log_app.command()
def export(
    location: Location,
    topic: Topic,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The Parquet file; one that exists is replaced.")],
    define: Definitions = None,
) -> None:
    """Write all records of a topic to a Parquet file."""
    _run("export", location, define, topic, file)


def _run(
    command: str, location: str, define: list[str] | None, *arguments: Any, create: bool = False, **options: Any
) -> None:
    from headrace.cli import log_commands

    def run() -> None:
        log = log_commands.open_log(location, define, create=create)
        getattr(log_commands, command)(log, *arguments, **options)

    raise typer.Exit(log_commands.telling(run))
