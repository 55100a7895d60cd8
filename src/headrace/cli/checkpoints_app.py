"""``headrace checkpoints``: what a checkpoint directory holds, and its conversion from formats of earlier versions.

What it does is in modules that are imported when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from typer.core import TyperGroup

from headrace.cli.settings import job_settings
from headrace.common.configuration import Configuration

_SHOW: Final = "show"


class _ShowsByDefault(TyperGroup):
    """``headrace checkpoints DIR`` is ``headrace checkpoints show DIR``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override] # click's own type
        if args and args[0] not in self.commands and "--help" not in args:
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


checkpoints_app = typer.Typer(
    cls=_ShowsByDefault,
    help="Show what a checkpoint directory DIR holds, or convert it from the format of an earlier version.",
    no_args_is_help=True,
)

Directory = Annotated[str, typer.Argument(metavar="DIR", help="The directory, or its URI on an object store.")]
Definitions = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting, of the storage say.", show_default=False)
]
PropertiesFile = Annotated[
    Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A file of settings.")
]


@checkpoints_app.command(_SHOW)
def show(directory: Directory, define: Definitions = None, properties_file: PropertiesFile = None) -> None:
    """Show what a checkpoint directory holds; `headrace checkpoints DIR` does as well."""
    from headrace.cli.checkpoints import run_checkpoints

    raise typer.Exit(run_checkpoints(directory, _storage_options(define, properties_file)))


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

    raise typer.Exit(run_upgrade(directory, _storage_options(define, properties_file), timeout))


def _storage_options(definitions: list[str] | None, properties_file: Path | None) -> dict[str, str]:
    settings = job_settings(definitions or [], properties_file=properties_file)
    return dict(Configuration.from_dict(settings).storage_options())
