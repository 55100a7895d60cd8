"""The Java process of a session of headrace's own: what it is started with, and how it is handed over to PySpark.

Imports no PySpark, so that Java can start before it is imported.
"""

import atexit
import contextlib
import importlib.util
import os
import shlex
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.durable import Permissions, TemporaryFolder, write_file
from headrace.common.errors import ConfigurationError, HeadraceError, JobExecutionError
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

SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
"""The arguments with which PySpark calls ``spark-submit`` when it starts Java."""

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
    def of(environment: Mapping[str, str]) -> "SubmitArguments":
        """The settings of an environment."""
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
        """Return whether ``spark-defaults.conf`` counts."""
        return self.properties_file is None or _LOAD_DEFAULTS in self.others

    def text(self) -> str:
        """The settings in the user's file."""
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
        settings: the settings for Java; they win over the user's own file.
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
        settings: settings of Spark that the user gave to headrace.
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
    def of(configuration: Configuration) -> "SessionRequest":
        """The settings in the configuration of a job.

        Raises:
            ConfigurationError: when it names two interpreters.
        """
        settings = with_interpreter(configuration.spark_options(), configuration.get(options.PYTHON_EXECUTABLE))
        archive = configuration.get(options.SPARK_CLASS_ARCHIVE)
        return SessionRequest(dict(settings), configuration.get(options.SPARK_MASTER), archive)

    def master_url(self) -> str:
        """The master that such a session has, where no Java of ``spark-submit`` has another one."""
        return master_of(self.settings, self.master, given_to_spark(self.environment))


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The settings that a session is started with.

    Attributes:
        settings: all of its settings.
        variables: environment variables for PySpark and Java, which the user's own sessions do not get.
        archive: the class archive to make later, where there is none yet.
    """

    settings: Mapping[str, str]
    variables: Mapping[str, str]
    archive: ClassArchive | None = None


def prepare(request: SessionRequest, given: Mapping[str, str]) -> SessionStart:
    """Work out what a session is started with.

    Args:
        request: the requested session.
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
    """Return where Spark is; found as PySpark finds it, in the usual cases without importing PySpark."""
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


_SECONDS: Final = 1.0


def destination() -> int | None:
    """Return where a Java is to write its errors: a pipe to here when they end on a terminal, else this process's."""
    is_terminal = getattr(sys.stderr, "isatty", bool)()  # programs put streams of their own there, or nothing
    return subprocess.PIPE if is_terminal else None


class StderrRelay:
    """Passes the lines of a stream on to what is the standard error when they come.

    That is the terminal, or what prints above a panel while one is drawn there. Java, and the Python workers below it,
    would write into the panel.

    Args:
        stream: what to read, to its end.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="headrace-java-stderr", daemon=True)
        self._thread.start()
        # A thread that writes while the interpreter ends would crash it
        atexit.register(self.close)

    def join(self) -> None:
        """Wait for the end of the stream, a moment at most: others may have it open for longer."""
        self._thread.join(_SECONDS)

    def close(self) -> None:
        """Pass nothing on any more; the stream is still read, so that its writer need not wait."""
        atexit.unregister(self.close)
        with self._lock:
            self._is_over = True

    def _run(self) -> None:
        for line in iter(self._stream.readline, b""):
            with self._lock:
                if not self._is_over:
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()


_CONNECTION_FILE: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""Names the file in which Java writes how to reach it."""

_DECIDES_ITSELF: Final = ("pyspark", options.RUNTIME.key)

_LENGTH: Final = struct.Struct(">i")
_LOOK_SECONDS: Final = 0.01


class JavaProcess:
    """A Java that runs PySpark's gateway.

    Args:
        start: what it is started with.
        environment: the variables of this process.

    Attributes:
        process: the process; it ends when its standard input is closed, and so with this one.

    Raises:
        OSError: when it cannot be started at all.
    """

    def __init__(self, start: SessionStart, environment: Mapping[str, str]) -> None:
        self._files = ExitStack()
        try:
            self._connection = self._new_folder() / "connection"
            submit = self._files.enter_context(settings_by_file(start.settings, environment))
            program = str(spark_home(environment) / "bin" / "spark-submit")
            self.process = subprocess.Popen(
                [program, *shlex.split(submit[SUBMIT_ARGUMENTS])],
                stdin=subprocess.PIPE,
                stderr=destination(),
                process_group=0,  # Ctrl-C is for this process, which ends Java when it has stopped its jobs
                env={
                    **environment,
                    **_locale(environment),
                    **start.variables,
                    "SPARK_CONNECT_MODE": "0",
                    _CONNECTION_FILE: str(self._connection),
                },
            )
        except BaseException:
            self._files.close()
            raise
        self._relay = None if self.process.stderr is None else StderrRelay(self.process.stderr)

    def _new_folder(self) -> Path:
        folder = TemporaryFolder("java-")
        self._files.callback(folder.remove)
        return folder.path

    def wait(self) -> dict[str, str]:
        """Wait until it can be reached; there is no limit, since Spark may have packages to download first.

        Returns:
            The environment variables from which PySpark learns how.

        Raises:
            JobExecutionError: when it ends instead.
        """
        try:
            while not self._connection.exists():
                if (code := self.process.poll()) is not None:
                    if self._relay is not None:
                        self._relay.join()  # its output comes first
                    raise JobExecutionError(
                        f"Java ended with code {code} before Spark was up; what it said is above. If it said nothing, "
                        "see `headrace doctor`"
                    )
                time.sleep(_LOOK_SECONDS)
            content = self._connection.read_bytes()
        finally:
            self._files.close()
        (port,) = _LENGTH.unpack_from(content)
        secret = content[2 * _LENGTH.size :].decode()
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    def end(self) -> None:
        """End it, whatever it does, with the processes that were to become it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._files.close()


def _locale(environment: Mapping[str, str]) -> dict[str, str]:
    """In the C locale Java has no names for files outside ASCII, and Spark does not start in a folder with such a path.

    Python sets the other variables of that locale for itself and its children, but for this one.
    """
    return {"LC_ALL": "C.UTF-8"} if environment.get("LC_ALL") in {"C", "POSIX"} else {}


class EarlyJava:
    """A Java that starts while the program is still being imported, for the session that it will probably need.

    Args:
        request: that session.

    Attributes:
        master: the master of that session.
    """

    @staticmethod
    def for_program(script: Path, configuration: Configuration) -> "EarlyJava | None":
        """One for a program, by the configuration that it is run with.

        Returns:
            None where there is a Java already, or the program may not want one: it is run locally, its text says that
            it decides that itself, or that it makes a session of its own.
        """
        if GATEWAY_PORT in os.environ or configuration.get(options.RUNTIME) == "local":
            return None
        try:
            text = script.read_text(errors="replace")
            request = SessionRequest.of(configuration)
        except (OSError, ConfigurationError):  # reported when the program runs
            return None
        return None if any(word in text for word in _DECIDES_ITSELF) else EarlyJava(request)

    def __init__(self, request: SessionRequest) -> None:
        self.master = request.master_url()
        self._request = request
        self._lock = threading.Lock()
        self._process: JavaProcess | None = None
        self._is_wanted = True
        executor = ThreadPoolExecutor(1, "headrace-java-start")
        self._started: Future[tuple[SessionStart, JavaProcess] | None] = executor.submit(self._start)
        executor.shutdown(wait=False)

    def take(self, request: SessionRequest) -> tuple[SessionStart, JavaProcess] | None:
        """The process, once, and what it was started with.

        Returns:
            None where another session is wanted, and where it did not start: another start gives the reason.
        """
        if request != self._request:
            self.discard()
            return None
        found = self._started.result()
        with self._lock:
            is_wanted, self._is_wanted = self._is_wanted, False
        return found if is_wanted else None

    def discard(self) -> None:
        """End the process, unless it has been taken."""
        with self._lock:
            if not self._is_wanted:
                return
            self._is_wanted = False
            process = self._process
        if process is not None:
            process.end()

    def _start(self) -> tuple[SessionStart, JavaProcess] | None:
        environment = self._request.environment
        try:
            start = prepare(self._request, given_to_spark(environment))
            with self._lock:
                if not self._is_wanted:
                    return None
                self._process = JavaProcess(start, environment)
            return start, self._process
        except (OSError, HeadraceError):  # the next session is started anew, and gives the error
            return None
