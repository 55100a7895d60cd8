"""What a session of headrace's own is started with: settings, environment variables, Java.

Imports no PySpark, so that Java can start before it is imported.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common import options
from headrace.common.durable import Permissions, TemporaryFolder, write_file
from headrace.common.errors import ConfigurationError
from headrace.common.java import JavaRuntime, bundled_java_home, find_java
from headrace.runtime.spark.class_archive import QUIET, ClassArchive
from headrace.runtime.spark.executors import check_is_classic, check_master
from headrace.runtime.spark.settings import (
    DEFAULT_JAVA_OPTIONS,
    is_local,
    master_of,
    quiet_log_level,
    quiet_logging,
    read_spark_defaults,
    runs_tasks_in_driver,
    settings_of_own_session,
)
from headrace.runtime.spark.worker_daemon import daemon_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.common.configuration import Configuration


SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
"""What PySpark gives to ``spark-submit`` when it starts Java."""

_SHELL: Final = "pyspark-shell"
_PROPERTIES_FILE: Final = "--properties-file"
_LOAD_DEFAULTS: Final = "--load-spark-defaults"

_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"})
_ESCAPED_IN_KEYS: Final = _ESCAPED | str.maketrans({character: f"\\{character}" for character in " =:#!"})


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """The arguments of ``spark-submit`` that the user has put into the environment.

    Attributes:
        others: all but the file of settings.
        properties_file: the file of settings, instead of which Spark would not read ``spark-defaults.conf``.
    """

    others: tuple[str, ...]
    properties_file: str | None

    @staticmethod
    def of(environment: Mapping[str, str]) -> SubmitArguments:
        """Those of an environment."""
        others: list[str] = []
        file = None
        arguments = iter(shlex.split(environment.get(SUBMIT_ARGUMENTS, _SHELL)))
        for argument in arguments:
            name, has_value, value = argument.partition("=")
            if name == _PROPERTIES_FILE:
                file = value if has_value else next(arguments, None)
            else:
                others.append(argument)
        return SubmitArguments(tuple(others), file)

    @property
    def reads_defaults(self) -> bool:
        """Whether ``spark-defaults.conf`` counts."""
        return self.properties_file is None or _LOAD_DEFAULTS in self.others

    def text(self) -> str:
        """What is in the user's file of settings."""
        return f"{Path(self.properties_file).read_text()}\n\n" if self.properties_file else ""

    def with_file(self, path: Path) -> str:
        """The same arguments with a file of ours, which holds what is in the user's, too."""
        options = [_PROPERTIES_FILE, str(path)]
        if self.reads_defaults and _LOAD_DEFAULTS not in self.others:
            options.append(_LOAD_DEFAULTS)
        return shlex.join([*options, *self.others])


@contextmanager
def settings_by_file(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Settings in a file that Java reads when it is started meanwhile.

    Args:
        settings: what Java is to be told; wins over the user's own file.
        environment: that of this process.

    Yields:
        The environment variables to start Java with.
    """
    arguments = SubmitArguments.of(environment)
    folder = TemporaryFolder("spark-")
    try:
        file = folder.path / "spark.properties"
        text = arguments.text() + properties_text(settings)  # the last one of a key counts
        write_file(file, (text.encode(),), Permissions.OWNER)
        yield {SUBMIT_ARGUMENTS: arguments.with_file(file)}
    finally:
        folder.remove()


def properties_text(settings: Mapping[str, str]) -> str:
    """Settings in the words of Java's property files."""
    return "".join(f"{key.translate(_ESCAPED_IN_KEYS)}={_value(value)}\n" for key, value in settings.items())


def _value(text: str) -> str:
    escaped = text.translate(_ESCAPED)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


PYTHON: Final = "spark.pyspark.python"
GATEWAY_PORT: Final = "PYSPARK_GATEWAY_PORT"
"""Set where ``spark-submit`` has started the JVM already."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """All that decides how a session is started; equal ones are started alike.

    Attributes:
        settings: settings of Spark that the user asked headrace for.
        master: the master URL, if any.
        uses_class_archive: whether a local session's Java starts from an archive of its classes, and has one made.
        environment: the variables of this process.
        folder: its working directory.
    """

    settings: Mapping[str, str]
    master: str | None
    uses_class_archive: bool
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path = field(default_factory=Path.cwd)

    @staticmethod
    def of(configuration: Configuration) -> SessionRequest:
        """What the configuration of a job asks for.

        Raises:
            ConfigurationError: when it names two interpreters.
        """
        settings = with_interpreter(configuration.spark_options(), configuration.get(options.PYTHON_EXECUTABLE))
        archive = configuration.get(options.SPARK_CLASS_ARCHIVE)
        return SessionRequest(dict(settings), configuration.get(options.SPARK_MASTER), archive)

    def master_url(self) -> str:
        """The master that such a session has, where no Java of ``spark-submit`` knows of another one."""
        return master_of(self.settings, self.master, given_to_spark(self.environment))


@dataclass(frozen=True, slots=True)
class SessionStart:
    """What a session is started with.

    Attributes:
        settings: all of its settings.
        variables: environment variables for PySpark and Java, which the user's own sessions do not see.
        archive: the class archive to make later, where there is none yet.
    """

    settings: Mapping[str, str]
    variables: Mapping[str, str]
    archive: ClassArchive | None = None


def prepare(request: SessionRequest, given: Mapping[str, str]) -> SessionStart:
    """Work out what a session is started with.

    Args:
        request: what is asked for.
        given: the settings that the user gave to Spark itself rather than to headrace.

    Raises:
        ConfigurationError: when settings are not those of Spark or contradict each other, nothing says where the
            cluster is, or it is one of Spark Connect.
        InfrastructureError: when the master of the cluster cannot be reached.
        JavaNotFoundError: when there is no usable Java.
    """
    settings, environment = request.settings, request.environment
    chosen = settings_of_own_session(settings, request.master, given)
    check_is_classic({**given, **chosen}, environment)
    if runs_tasks_in_driver(chosen["spark.master"]):
        chosen |= daemon_settings({**given, **settings})
    variables = _interpreters(chosen)
    configuration = _configuration_directory(environment)
    if GATEWAY_PORT in environment:
        return SessionStart(chosen | quiet_log_level({**given, **chosen}, configuration), variables)
    check_master(chosen["spark.master"], environment, configuration)
    chosen |= quiet_logging({**given, **chosen}, configuration)
    java = find_java(environment, bundled_java_home())
    variables["JAVA_HOME"] = str(java.home)
    archive = None
    if request.uses_class_archive and DEFAULT_JAVA_OPTIONS not in {**given, **settings}:
        archive = _archive(chosen, java, environment)
    file = archive and archive.find()
    if file:
        options = f"{chosen[DEFAULT_JAVA_OPTIONS]} {QUIET} -XX:SharedArchiveFile={shlex.quote(str(file))}"
        return SessionStart(chosen | {DEFAULT_JAVA_OPTIONS: options}, variables)
    return SessionStart(chosen, variables, archive)


def _archive(chosen: Mapping[str, str], java: JavaRuntime, environment: Mapping[str, str]) -> ClassArchive | None:
    """The class archive fits headrace's own options for Java, so it is used together with them or not at all."""
    if not chosen.get(DEFAULT_JAVA_OPTIONS):
        return None
    return ClassArchive.of(java, spark_home(environment), environment)


def given_to_spark(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that the user gave to a Spark that has not been started yet: in files and in arguments."""
    arguments = SubmitArguments.of(environment)
    directory = _configuration_directory(environment)
    defaults = directory / "spark-defaults.conf" if directory and arguments.reads_defaults else None
    found = read_spark_defaults(defaults.read_text()) if defaults and defaults.is_file() else {}
    return found | read_spark_defaults(arguments.text())


def with_interpreter(settings: Mapping[str, str], python: str | None) -> Mapping[str, str]:
    """The settings of a session whose workers have the interpreter ``python``.

    Raises:
        ConfigurationError: when the settings name another one.
    """
    if python is None:
        return settings
    theirs = settings.get(PYTHON, python)
    if theirs != python:
        raise ConfigurationError(f"the interpreter is given twice: {python!r} and {PYTHON}={theirs!r}; keep one")
    return {**settings, PYTHON: python}


def spark_home(environment: Mapping[str, str]) -> Path:
    """Where Spark is; found as PySpark finds it, in the usual cases without importing PySpark."""
    if theirs := environment.get("SPARK_HOME"):
        return Path(theirs)
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / "bin" / "spark-submit").is_file() and not (Path(folder) / "spark-distribution").exists():
            return Path(folder)
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def _configuration_directory(environment: Mapping[str, str]) -> Path | None:
    if directory := environment.get("SPARK_CONF_DIR"):
        return Path(directory)
    home = environment.get("SPARK_HOME")
    return Path(home) / "conf" if home else None


def _interpreters(chosen: Mapping[str, str]) -> dict[str, str]:
    """The environment variables in which PySpark looks for the interpreter of its workers."""
    if python := chosen.get(PYTHON):
        return {"PYSPARK_PYTHON": python}
    if is_local(chosen["spark.master"]):
        # The workers have to be this very interpreter, with its packages
        return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {}
