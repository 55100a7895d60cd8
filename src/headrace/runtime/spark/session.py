"""The Spark session that a job runs in: the user's if there is one, else one of headrace's own."""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import shutil
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from headrace.common.errors import ConfigurationError
from headrace.runtime.spark.class_archive import QUIET, ClassArchive
from headrace.runtime.spark.java import JavaRuntime, bundled_java_home, find_java
from headrace.runtime.spark.launch import SubmitArguments, settings_by_file
from headrace.runtime.spark.settings import (
    CHECKED_SETTINGS,
    DEFAULT_JAVA_OPTIONS,
    EPOCH_QUERY_SETTINGS,
    SettingMismatch,
    SparkSetting,
    is_local,
    quiet_logging,
    read_spark_defaults,
    runs_tasks_in_driver,
    settings_of_own_session,
)
from headrace.runtime.spark.worker_daemon import daemon_settings, start_early

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

logger = logging.getLogger(__name__)

_PYTHON: Final = "spark.pyspark.python"
_GATEWAY_PORT: Final = "PYSPARK_GATEWAY_PORT"
"""Set where ``spark-submit`` has started the JVM already."""


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """A Spark session, and whether it is headrace's to stop.

    Attributes:
        session: the session to run epochs in.
        owned: whether headrace started it.
        warnings: settings of a session that was there before which are not as headrace wants them.
    """

    session: SparkSession
    owned: bool
    warnings: tuple[SettingMismatch, ...] = ()

    @property
    def default_parallelism(self) -> int:
        """How many tasks the session can run at the same time, as far as it knows now."""
        return int(self.session.sparkContext.defaultParallelism)

    @property
    def tasks_run_here(self) -> bool:
        """Whether tasks run in children of this process's Java, and so on this machine with this user's rights."""
        return runs_tasks_in_driver(self.session.sparkContext.master or "")

    def stop(self) -> None:
        """Stops the session if headrace started it; leaves the user's alone."""
        if self.owned:
            self.session.stop()


def acquire_session(
    settings: Mapping[str, str],
    master: str | None = None,
    python: str | None = None,
    *,
    uses_class_archive: bool = True,
) -> SessionHandle:
    """The session that is running, else a new one.

    A running session is used as it is: nothing of it is changed, and `SessionHandle.stop` does not stop it. A new one
    gets the settings that headrace wants, under those that the user gave to Spark, under ``settings``.

    Args:
        settings: settings of Spark that the user asked for.
        master: the master URL; ``local[*]`` when neither this, nor ``settings``, nor Spark's own configuration has one.
        python: the interpreter of the workers; Spark's own choice when left out.
        uses_class_archive: whether a local session's Java starts from an archive of its classes, and has one made.

    Raises:
        ConfigurationError: when ``settings`` are not settings of Spark or contradict ``master`` or ``python``, or the
            workers of a running session have another interpreter.
        JavaNotFoundError: when a session has to be started and there is no usable Java.
    """
    running = running_session()
    if running is None:
        settings = with_interpreter(settings, python)
        return SessionHandle(_start_session(settings, master, uses_class_archive=uses_class_archive), owned=True)
    if python is not None:
        check_interpreter(running, python)
    asked = dict(settings) | ({"spark.master": master} if master else {})
    return SessionHandle(running, owned=False, warnings=mismatches(running, asked))


def session_of_epochs(session: SparkSession) -> SparkSession:
    """A session for headrace's own queries: same context, and but for a few the same settings of Spark SQL."""
    own = session.newSession()
    theirs = {key: value for key, value in session.conf.getAll.items() if key.startswith("spark.sql.")}
    for key, value in (theirs | EPOCH_QUERY_SETTINGS).items():
        if own.conf.isModifiable(key):
            own.conf.set(key, value)
    return own


def running_session() -> SparkSession | None:
    """The session of this thread, else the process's default one, else None."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:  # there is none
        # Older programs make a bare context; a session over it is theirs as well
        return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context else None


def with_interpreter(settings: Mapping[str, str], python: str | None) -> Mapping[str, str]:
    """The settings of a session whose workers have the interpreter ``python``.

    Raises:
        ConfigurationError: when the settings name another one.
    """
    if python is None:
        return settings
    theirs = settings.get(_PYTHON, python)
    if theirs != python:
        raise ConfigurationError(f"the interpreter is given twice: {python!r} and {_PYTHON}={theirs!r}; keep one")
    return {**settings, _PYTHON: python}


def check_interpreter(session: SparkSession, python: str) -> None:
    """Refuse a session whose workers have another interpreter than ``python``: it cannot be changed any more.

    Raises:
        ConfigurationError: when they have.
    """
    theirs = session.sparkContext.pythonExec
    if (shutil.which(theirs) or theirs) != (shutil.which(python) or python):
        raise ConfigurationError(
            f"python.executable = {python!r}, but the Spark session that is running has workers with {theirs!r}: set "
            f"{_PYTHON} where the session is made, or let headrace start one"
        )


def mismatches(session: SparkSession, asked: Mapping[str, str]) -> tuple[SettingMismatch, ...]:
    """What in a session differs from what headrace wants and from what the user ``asked`` headrace for."""
    wanted = [setting for setting in CHECKED_SETTINGS if setting.key not in asked]
    wanted += [SparkSetting(key, value, "asked for, but the session was there before") for key, value in asked.items()]
    found = {setting: _value_in(session, setting) for setting in wanted}
    return tuple(
        SettingMismatch(setting.key, value, setting.value, setting.why)
        for setting, value in found.items()
        if not setting.accepts(value)
    )


def _value_in(session: SparkSession, setting: SparkSetting) -> str:
    try:
        return session.conf.get(setting.key) or ""
    except PySparkException:  # not set, and the session does not know the defaults of Spark's core
        return setting.spark_default


def _start_session(settings: Mapping[str, str], master: str | None, *, uses_class_archive: bool) -> SparkSession:
    given = _given_to_spark(os.environ)
    chosen = settings_of_own_session(settings, master, given)
    if runs_tasks_in_driver(chosen["spark.master"]):
        chosen |= daemon_settings({**given, **settings})
    variables = _interpreters(chosen)
    if _GATEWAY_PORT not in os.environ:
        chosen |= quiet_logging(given | chosen, _configuration_directory(os.environ))
        java = find_java(os.environ, bundled_java_home())
        variables["JAVA_HOME"] = str(java.home)
        if uses_class_archive and DEFAULT_JAVA_OPTIONS not in {**given, **settings}:
            chosen |= _from_archive(chosen, java)
    with _environment(variables):
        return _uninterrupted(lambda: _start(chosen))


def _from_archive(chosen: Mapping[str, str], java: JavaRuntime) -> dict[str, str]:
    """The setting that has Java start from its class archive; where there is none yet, one is made later.

    The archive fits headrace's own options for Java, so it is used together with them or not at all.
    """
    options = chosen.get(DEFAULT_JAVA_OPTIONS)
    archive = ClassArchive.of(java, Path(_find_spark_home()), os.environ) if options else None
    if archive is None:
        return {}
    if file := archive.find():
        return {DEFAULT_JAVA_OPTIONS: f"{options} {QUIET} -XX:SharedArchiveFile={shlex.quote(str(file))}"}
    atexit.register(archive.make_in_background)
    return {}


def _uninterrupted(start: Callable[[], SparkSession]) -> SparkSession:
    """Start a session in a thread of its own, which goes on to its end whatever signal comes.

    A signal half-way would leave a Java process behind for good, and in the main thread PySpark would replace the
    program's handler of Ctrl-C.

    Raises:
        BaseException: what the start raises; and what a handler of signals raises, once the session has been stopped.
    """
    with ThreadPoolExecutor(1, "headrace-spark-start") as executor:
        starting = executor.submit(start)
        try:
            wait((starting,))
        except BaseException:
            logger.warning("interrupted while Spark starts; it is stopped as soon as it is up")
            starting.add_done_callback(_stop_started)
            raise
    return starting.result()


def _stop_started(starting: Future[SparkSession]) -> None:
    if starting.exception() is None:
        starting.result().stop()


def _start(settings: Mapping[str, str]) -> SparkSession:
    _start_java(settings)
    start_early(SparkContext.getOrCreate(SparkConf().setAll([*settings.items()])))
    return SparkSession.builder.config(map={**settings}).getOrCreate()


def _start_java(settings: Mapping[str, str]) -> None:
    """Start the Java process, unless there is one already; left to itself PySpark would tell everybody the settings."""
    if _GATEWAY_PORT in os.environ or SparkContext._gateway is not None:
        return
    with settings_by_file(settings, os.environ) as variables, _environment(variables):
        SparkContext._ensure_initialized()


def _given_to_spark(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that the user gave to Spark itself rather than to headrace."""
    if _GATEWAY_PORT in environment:
        SparkContext._ensure_initialized()  # connects to the JVM, which knows what spark-submit was told
        return dict(SparkConf().getAll())
    arguments = SubmitArguments.of(environment)
    directory = _configuration_directory(environment)
    defaults = directory / "spark-defaults.conf" if directory and arguments.reads_defaults else None
    found = read_spark_defaults(defaults.read_text()) if defaults and defaults.is_file() else {}
    return found | read_spark_defaults(arguments.text())


def _configuration_directory(environment: Mapping[str, str]) -> Path | None:
    if directory := environment.get("SPARK_CONF_DIR"):
        return Path(directory)
    home = environment.get("SPARK_HOME")
    return Path(home) / "conf" if home else None


def _interpreters(chosen: Mapping[str, str]) -> dict[str, str]:
    """The environment variables in which PySpark looks for the interpreter of its workers."""
    if python := chosen.get(_PYTHON):
        return {"PYSPARK_PYTHON": python}
    if is_local(chosen["spark.master"]):
        # The workers have to be this very interpreter, with its packages
        return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables for a while; the user's own sessions do not see them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
