"""``headrace run -d``: gives a program to a dispatcher."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.text import Text

from headrace.cli.cluster import the_dispatcher
from headrace.cli.output import output
from headrace.cli.savepoint import place
from headrace.common import options
from headrace.common.configuration import Configuration


def submit_program(
    program: Path, arguments: Sequence[str], settings: Mapping[str, str], address: str | None, entry: str = ""
) -> None:
    """Have a dispatcher run a program, and print the id of its job.

    Args:
        program: the script, archive or statements.
        arguments: its arguments.
        settings: its configuration; what says how the dispatcher is reached is not given to the job.
        address: where the dispatcher is; the only one on this machine when left out.
        entry: the script in an archive.
    """
    configuration = Configuration.from_dict(dict(settings))
    client = replace(the_dispatcher(address, configuration), seconds=_PATIENCE_SECONDS)
    uploaded = client.upload(program)
    body = {
        "programArgsList": list(arguments),
        "flinkConfiguration": {
            key: place(value) if key in _PLACES else value
            for key, value in settings.items()
            if not key.startswith(_OWN)
        },
        "jobId": None if options.CHECKPOINT_DIR.key in settings else secrets.token_hex(16),
        "entryClass": entry,
    }
    try:
        job = client.ask("POST", ("jars", uploaded, "run"), body=body)["jobid"]
    finally:
        client.ask("DELETE", ("jars", uploaded))
    output().print(Text(f"job {job} was submitted to {client.address}"), soft_wrap=True)


_PATIENCE_SECONDS: Final = 30.0
"""The time limit of a request: a program is written to the storage of the dispatcher before that answers."""

_OWN: Final = ("rest.", "security.ssl.")
_PLACES: Final = (options.CHECKPOINT_DIR.key, options.RECOVERY_PATH.key, options.SAVEPOINT_DIR.key)
"""Paths are meant as whoever submits the program sees them."""
