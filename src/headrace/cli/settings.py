"""From the options of a command to the configuration of a job."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from headrace.common import options
from headrace.common.configuration import Configuration


def job_settings(
    definitions: Sequence[str] = (),
    *,
    parallelism: int | None = None,
    master: str | None = None,
    runtime: str | None = None,
    checkpoint_dir: str | None = None,
) -> dict[str, str]:
    """The configuration that the options of a command stand for; named options win over ``-D``.

    Args:
        definitions: ``key=value`` of each ``-D``.
        parallelism: of ``-p``.
        master: of ``--master``.
        runtime: of ``--runtime``.
        checkpoint_dir: of ``--checkpoint-dir``.

    Raises:
        typer.BadParameter: when a definition has no ``=``.
        ConfigurationError: when a key is unknown or a value cannot be read.
    """
    settings = dict(map(_definition, definitions))
    named = {
        options.PARALLELISM.key: None if parallelism is None else str(parallelism),
        options.SPARK_MASTER.key: master,
        options.RUNTIME.key: runtime,
        options.CHECKPOINT_DIR.key: checkpoint_dir,
    }
    settings |= {key: value for key, value in named.items() if value is not None}
    Configuration.from_dict(settings).validate()
    return settings


def spark_settings(settings: dict[str, str]) -> dict[str, str]:
    """Those of the settings that are Spark's own."""
    return Configuration.from_dict(settings).spark_options()


def _definition(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise typer.BadParameter(f"-D {text}: expected key=value, such as -D parallelism.default=4")
    return key.strip(), value
