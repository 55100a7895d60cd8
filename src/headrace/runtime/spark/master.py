"""Whether a cluster can be asked for anything, looked at before Java starts and waits for it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from headrace.common.errors import ConfigurationError, InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_STANDALONE: Final = "spark://"
_CONNECT: Final = "sc://"
_CLASSIC: Final = "classic"
_SECONDS: Final = 10.0
_HADOOP_FOLDERS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")

NO_CONNECT: Final = (
    "jobs do not run over Spark Connect: a client has no SparkContext, which hands tasks what an epoch starts from, "
    "ships modules and cancels epochs\n  Run the program where Spark's driver may be, with spark-submit or "
    "headrace run --master URL, and without SPARK_REMOTE, spark.remote and spark.api.mode"
)
"""Why Spark Connect is refused, and what to do."""


def check_is_classic(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse to start a session of Spark Connect.

    Args:
        settings: those of Spark.
        environment: the variables of this process.

    Raises:
        ConfigurationError: when something asks for one.
    """
    asked = {
        "SPARK_REMOTE": environment.get("SPARK_REMOTE"),
        "spark.remote": settings.get("spark.remote"),
        "spark.api.mode": settings.get("spark.api.mode", _CLASSIC).replace(_CLASSIC, ""),
        "the master": settings["spark.master"] if settings["spark.master"].startswith(_CONNECT) else None,
    }
    for name, value in asked.items():
        if value:
            raise ConfigurationError(f"{name} is {value}, but {NO_CONNECT}")


def check_master(master: str, environment: Mapping[str, str], spark_conf: Path | None) -> None:
    """Refuse a master that nothing can come of.

    Args:
        master: the master URL.
        environment: the variables of this process.
        spark_conf: Spark's folder of configuration; a ``spark-env.sh`` there may set more variables.

    Raises:
        ConfigurationError: when it is YARN and nothing says where YARN is; or when the URL has no host and port.
        InfrastructureError: when none of the masters of a standalone cluster can be reached.
    """
    if master == "yarn":
        _check_yarn(environment, spark_conf)
    elif master.startswith(_STANDALONE):
        _check_standalone(master)


def _check_yarn(environment: Mapping[str, str], spark_conf: Path | None) -> None:
    has_script = spark_conf is not None and (spark_conf / "spark-env.sh").is_file()
    if not has_script and not any(environment.get(name) for name in _HADOOP_FOLDERS):
        raise ConfigurationError(
            "the master is yarn, but nothing says where YARN is\n  Set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder "
            "that holds the cluster's core-site.xml and yarn-site.xml"
        )


def _check_standalone(master: str) -> None:
    failures = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigurationError(f"the master {master!r} has no host and port, as in spark://host:7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
        except (OSError, OverflowError) as error:
            failures.append(f"{address}: {error}")
        else:
            return
    raise InfrastructureError(
        f"the master {master} cannot be reached ({'; '.join(failures)})\n  Check that it runs (sbin/start-master.sh), "
        "that host and port are as its web page says (spark://… at the top, port 8080), and that no firewall is between"
    )
