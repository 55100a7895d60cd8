"""``headrace kafka``: a real Kafka on this machine, for trying things out."""

import os
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import FAILED, OK
from headrace.common.java import cache_directory

kafka = typer.Typer(
    help="A real Kafka on this machine, for trying things out; needs headrace\\[kafka-broker].", no_args_is_help=True
)

_Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", file_okay=False, help="What it keeps; a folder in the user's cache."),
]


@kafka.command()
def start(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="How many nodes a new cluster gets.")] = 1,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Where a new cluster takes clients; any free port.")
    ] = None,
    data: _Data = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay, and stop it by Ctrl-C.")] = False,
) -> None:
    """Start it and print its bootstrap servers; topics and data are those of its last time."""
    from headrace.broker import KafkaCluster

    cluster = KafkaCluster(_folder(data), brokers, port)
    if cluster.is_running:
        typer.echo(cluster.bootstrap_servers)
        return
    typer.echo(f"starting Kafka in {_folder(data)}", err=True)
    cluster.start(detached=not foreground)
    typer.echo(cluster.bootstrap_servers)
    if foreground:
        _wait_for_signal()
        cluster.stop()


@kafka.command()
def stop(
    data: _Data = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete its topics and all that it keeps, too.")] = False,
) -> None:
    """Stop it; what it keeps is there again at the next start."""
    from headrace.broker import KafkaCluster

    cluster = KafkaCluster.existing(_folder(data))
    if delete:
        cluster.remove()
    else:
        cluster.stop()


@kafka.command()
def status(data: _Data = None) -> None:
    """Print its bootstrap servers if it runs, and which of its nodes do; the exit code is 1 if none does."""
    from headrace.broker import KafkaCluster

    cluster = KafkaCluster.existing(_folder(data))
    for node in cluster.nodes:
        typer.echo(f"{node}: {'running' if node.is_running else 'stopped'}", err=True)
    if cluster.is_running:
        typer.echo(cluster.bootstrap_servers)
    raise typer.Exit(OK if cluster.is_running else FAILED)


def _folder(data: Path | None) -> Path:
    return data or cache_directory(os.environ) / "kafka" / "cluster"


def _wait_for_signal() -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(1):  # signals are handled between waits
        pass
