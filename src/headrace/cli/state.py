"""``headrace state``: the state of a job from a shell, out of a savepoint or a checkpoint directory.

What it does is in a module that is imported when it runs.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

state_app = typer.Typer(
    help="Look at the state of a job, in a savepoint or in its checkpoint directory; it may run meanwhile.",
    no_args_is_help=True,
)

Place = Annotated[
    str, typer.Argument(metavar="PATH", help="A savepoint or a checkpoint directory, or its URI on an object store.")
]
Uid = Annotated[str, typer.Argument(metavar="UID", help="The uid of the operator.")]
State = Annotated[
    str, typer.Argument(metavar="STATE", help="The state, as `list` calls it; a name alone is that of a keyed state.")
]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="How many lines to show at most.")]
Definitions = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting, of the storage say.", show_default=False)
]


class RowFormat(StrEnum):
    """How rows are shown."""

    TABLE = "table"
    JSON = "json"


class ExportFormat(StrEnum):
    """What files are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


@state_app.command("list")
def list_(place: Place, define: Definitions = None) -> None:
    """Show which states there are, of which types, and how many rows they have."""
    _run("list_states", define, place)


@state_app.command()
def show(
    place: Place,
    uid: Uid,
    state: State,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="Show what one key has, as the table shows the key.")
    ] = None,
    limit: Limit = 50,
    output: Annotated[
        RowFormat, typer.Option("--format", help="A table, or a line of JSON for each row.")
    ] = RowFormat.TABLE,
    define: Definitions = None,
) -> None:
    """Show what a state holds."""
    _run("show", define, place, uid, state, key=key, limit=limit, as_json=output is RowFormat.JSON)


@state_app.command()
def verify(place: Place, define: Definitions = None) -> None:
    """Read all files, and compare them with the checksums that were written with them."""
    _run("verify", define, place)


@state_app.command()
def diff(
    before: Place,
    after: Annotated[str, typer.Argument(metavar="PATH", help="Another one.")],
    limit: Limit = 50,
    define: Definitions = None,
) -> None:
    """Show what is different between two of them, key by key; the exit code is 1 when something is."""
    _run("diff", define, before, after, limit=limit)


@state_app.command()
def export(
    place: Place,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder for the files, which must not exist.")],
    uid: Annotated[str | None, typer.Option("--uid", metavar="UID", help="Those of one operator alone.")] = None,
    fmt: Annotated[ExportFormat, typer.Option("--format", help="What files to write.")] = ExportFormat.PARQUET,
    define: Definitions = None,
) -> None:
    """Write each state to a file."""
    _run("export", define, place, folder, uid=uid, fmt=str(fmt))


def _run(command: str, define: list[str] | None, *arguments: Any, **options: Any) -> None:
    from headrace.cli import state_commands

    raise typer.Exit(state_commands.run(command, define, *arguments, **options))
