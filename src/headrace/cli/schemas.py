"""``headrace schemas``: what a schema registry has, and whether a job goes together with it.

What a command needs is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.output import FAILED, OK, new_table, output
from headrace.cli.settings import job_settings

if TYPE_CHECKING:
    from headrace.common.serialization import SchemaCheck
    from headrace.formats.schema_registry import RegistryClient
    from headrace.plan.job_plan import JobPlan

schemas_app = typer.Typer(help="Look at the schemas in a registry, and whether a job fits them.", no_args_is_help=True)

Registry = Annotated[str, typer.Option("--registry", metavar="URL", help="The registry: https://host:8081.")]
Login = Annotated[
    Path | None,
    typer.Option("--login", metavar="FILE", exists=True, dir_okay=False, help="A file that holds user:password."),
]


@schemas_app.command("list")
def list_(registry: Registry, login: Login = None) -> None:
    """Show the subjects with their versions and their compatibility."""
    client = _client(registry, login)
    table = new_table("subject", "kind", "versions", "compatibility")
    for subject in client.subjects():
        versions = ", ".join(map(str, client.versions(subject)))
        table.add_row(*map(Text, (subject, client.latest(subject).kind, versions, client.compatibility(subject))))
    output().print(table)


@schemas_app.command()
def show(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject.")],
    registry: Registry,
    version: Annotated[int | None, typer.Option(min=1, help="The newest when left out.")] = None,
    login: Login = None,
) -> None:
    """Print a schema."""
    client = _client(registry, login)
    typer.echo((client.latest(subject) if version is None else client.version(subject, version)).text)


@schemas_app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def check(
    script: Annotated[Path, typer.Argument(metavar="JOB", exists=True, help="The program.")],
    args: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="What it is given.")] = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting of the job.", show_default=False)
    ] = None,
) -> None:
    """Compare the schemas of a program's job with those of the registries that its formats ask, without running it.

    Of a sink the registry says whether its schema could be the next version of the subject, by the compatibility that
    the subject demands. Of a source of Avro the newest schema of its topics is resolved to that of the reader.
    """
    from headrace.cli.explain import captured_jobs

    captured = captured_jobs(script, args or [], job_settings(define), full_traceback=False)
    if isinstance(captured, int):
        raise typer.Exit(captured)
    checks = [found for _, plan in captured for found in _checks(plan)]
    if not checks:
        output().print("no source and no sink of the job has a schema in a registry that can be checked")
        return
    table = new_table("operator", "subject", "")
    for name, found in checks:
        outcome = "; ".join(found.problems) or ("the subject is new" if found.is_new else "fits")
        table.add_row(*map(Text, (name, found.subject, outcome)))
    output().print(table)
    raise typer.Exit(FAILED if any(found.problems for _, found in checks) else OK)


def _checks(plan: JobPlan) -> Iterator[tuple[str, SchemaCheck]]:
    from headrace.graph.specs import SinkSpec, SourceSpec

    for operator in plan.operators():
        spec = operator.node.spec
        if isinstance(spec, SourceSpec | SinkSpec):
            connector = spec.source if isinstance(spec, SourceSpec) else spec.sink
            yield from ((operator.node.name, found) for found in connector.check_schemas())


def _client(url: str, login: Path | None) -> RegistryClient:
    from headrace.formats.schema_registry import RegistryClient, SchemaRegistry

    return RegistryClient(SchemaRegistry(url, basic_auth_user_info_file=None if login is None else str(login)))
