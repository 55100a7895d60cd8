"""The options that commands share, and the configuration that they stand for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

import typer

from headrace.common import options, server_options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.runtime.spark.settings import read_spark_defaults

PlanFormat = Literal["text", "mermaid", "svg", "json"]
"""The forms in which ``explain`` shows a job."""

LineageFormat = Literal["text", "mermaid", "json"]
"""The output formats of ``lineage``."""

SavepointKind = Literal["canonical", "native"]
"""The formats of savepoints."""


Parallelism = Annotated[
    int | None, typer.Option("-p", "--parallelism", min=1, help="Subtasks of operators that do not say otherwise.")
]
Definitions = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting; wins over the program's own.")
]
PropertiesFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A file of settings; other users do not see them, unlike those of -D.",
    ),
]
JobManagerAddress = Annotated[
    str | None,
    typer.Option("-m", "--jobmanager", metavar="HOST:PORT", help="Where the job is served (headrace run --rest)."),
]


def job_settings(
    definitions: Sequence[str] | None = (),
    properties_file: Path | None = None,
    named: Mapping[str, str | None] = MappingProxyType({}),
) -> dict[str, str]:
    """The configuration that the options of a command stand for; named options win over ``-D``, both over the file.

    Args:
        definitions: ``key=value`` of each ``-D``.
        properties_file: of ``--properties-file``.
        named: what options of their own say, by key; None where they are left out.

    Raises:
        typer.BadParameter: when a definition has no ``=``.
        ConfigurationError: when a key is unknown, or a value or the file cannot be read.
    """
    settings = {} if properties_file is None else _over({}, _settings_in(properties_file))
    settings = _over(settings, dict(map(_definition, definitions or ())))
    settings = _over(settings, {key: value for key, value in named.items() if value is not None})
    Configuration.from_dict(settings).validate()
    return settings


def configuration_of(definitions: list[str] | None, properties_file: Path | None) -> Configuration:
    """The configuration that ``-D`` and ``--properties-file`` stand for; errors as of :func:`job_settings`."""
    return Configuration.from_dict(job_settings(definitions, properties_file))


_FIRST_PORTS: Final = "8081-8180"
"""The default ports of servers of jobs: that of Flink, or the next free one."""


def with_rest(settings: Mapping[str, str], address: str | None) -> dict[str, str]:
    """Settings with what ``--rest`` stands for: nothing where it is left out, the first free port where it says none.

    Args:
        settings: the others; their port holds where the address has none.
        address: ``HOST:PORT``, ``HOST``, ``:PORT``, ``PORT`` or nothing.

    Raises:
        ConfigurationError: when it is none of these.
    """
    if address is None:
        return dict(settings)
    host, port = _host_and_port(address.strip())
    if port:
        rest = {server_options.REST_PORT.key: port, server_options.REST_BIND_PORT.key: port}
    elif settings.keys() & {server_options.REST_PORT.key, server_options.REST_BIND_PORT.key}:
        rest = {}
    else:
        rest = {server_options.REST_BIND_PORT.key: _FIRST_PORTS}
    changed = dict(settings) | rest | ({server_options.REST_BIND_ADDRESS.key: host} if host else {})
    Configuration.from_dict(changed).validate()
    return changed


def _host_and_port(address: str) -> tuple[str, str]:
    if address.startswith("["):  # of IPv6, in brackets
        host, _, port = address[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = ("", "", address) if address.isdecimal() else address.partition(":")
    return host, port


def _over(settings: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Settings with more over them, each option under one key: where more has two, the present one, as in Flink."""
    said = set(map(_present_key, more))
    kept = {key: value for key, value in settings.items() if _present_key(key) not in said}
    return kept | {key: value for key, value in more.items() if (now := _present_key(key)) == key or now not in more}


def _present_key(key: str) -> str:
    older = options.DEPRECATED.get(key)
    return key if older is None else older.key


def _definition(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise typer.BadParameter(f"-D {text}: expected key=value, such as -D parallelism.default=4")
    return key.strip(), value


def _settings_in(file: Path) -> dict[str, str]:
    """The settings in a file, a key and a value a line as in ``spark-defaults.conf``, or ``key: value`` as in Flink."""
    settings: dict[str, str] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not UTF-8 at byte {error.start}: save it as that") from None
    for number, line in enumerate(lines, start=1):
        found = read_spark_defaults(line)
        if not found and line.strip() and line.lstrip()[0] not in "#!":
            raise ConfigurationError(
                f"{file}, line {number}: expected a key and a value, such as `spark.executor.memory 4g`, "
                "`parallelism.default: 4` or `parallelism.default=4`"
            )
        settings |= found
    return settings


def pairs_of(definitions: list[str] | None, option: str = "--config") -> dict[str, str]:
    """The settings of an option that is given as ``KEY=VALUE``, any number of times.

    Raises:
        ConfigurationError: when there is no ``=`` in one.
    """
    found = {}
    for definition in definitions or []:
        key, separator, value = definition.partition("=")
        if not separator:
            raise ConfigurationError(f"{option} {definition}: expected KEY=VALUE, retention.ms=7d say")
        found[key.strip()] = value.strip()
    return found
