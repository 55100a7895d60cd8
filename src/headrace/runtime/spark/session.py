"""The Spark session that a job runs in: the user's if there is one, else one of headrace's own."""

import atexit
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from headrace.common.errors import ConfigurationError
from headrace.common.logs import get_logger
from headrace.runtime.spark.executors import NO_CONNECT
from headrace.runtime.spark.faults import SPARK_ERRORS, not_started
from headrace.runtime.spark.session_start import (
    GATEWAY_PORT,
    PYTHON,
    EarlyJava,
    JavaProcess,
    SessionRequest,
    SessionStart,
    given_to_spark,
    prepare,
    with_interpreter,
)
from headrace.runtime.spark.settings import (
    EPOCH_QUERY_SETTINGS,
    SettingMismatch,
    SparkSetting,
    checked_settings,
    master_of,
    runs_tasks_in_driver,
    warn_of_misspelled,
)
from headrace.runtime.spark.worker_daemon import start_early

logger = get_logger(__name__)

_reported: Final[set[tuple[str, SettingMismatch]]] = set()
"""The mismatches that users have been warned of, by application."""


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """A Spark session, and whether it is headrace's to stop.

    Attributes:
        session: the session to run epochs in.
        owned: whether headrace started it.
        warnings: settings of a session that was there before which differ from headrace's, and that no job
            before has heard of.
        beginning: what is still to be done for it, and has to be done before it is stopped.
    """

    session: SparkSession
    owned: bool
    warnings: tuple[SettingMismatch, ...] = ()
    beginning: Thread | None = None

    @property
    def default_parallelism(self) -> int:
        """Return how many tasks the session can run at the same time, as far as is known now."""
        return int(self.session.sparkContext.defaultParallelism)

    @property
    def tasks_run_here(self) -> bool:
        """Return whether tasks run in children of this process's Java: on this machine, with this user's rights."""
        return runs_tasks_in_driver(self.session.sparkContext.master or "")

    def stop(self) -> None:
        """Stops the session if headrace started it; leaves the user's alone."""
        if self.beginning is not None:
            self.beginning.join()
        if self.owned:
            self.session.stop()


def acquire_session(
    settings: Mapping[str, str],
    master: str | None = None,
    python: str | None = None,
    *,
    uses_class_archive: bool = True,
    early: EarlyJava | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> SessionHandle:
    """The session that is running, else a new one.

    A running session is used as it is: nothing of it is changed, and `SessionHandle.stop` does not stop it. A new one
    gets headrace's own settings, under those that the user gave to Spark, under ``settings``.

    Args:
        settings: settings of Spark that the user has given.
        master: the master URL; ``local[*]`` when neither this, nor ``settings``, nor Spark's own configuration has one.
        python: the interpreter of the workers; Spark's own choice when left out.
        uses_class_archive: whether a local session's Java starts from an archive of its classes, and has one made.
        early: a Java that has been started for the session already, if it is this one.
        starting: is called with the master of a session that has to be started, before that takes its seconds.

    Raises:
        ConfigurationError: when ``settings`` are not settings of Spark or contradict ``master`` or ``python``, the
            workers of a running session have another interpreter, or sessions are those of Spark Connect.
        JavaNotFoundError: when a session has to be started and there is no usable Java.
        JobExecutionError: when Java does not start, or Spark refuses the settings.
    """
    if is_remote():
        raise ConfigurationError(f"this process is a client of Spark Connect, but {NO_CONNECT}")
    running = running_session()
    if running is None:
        request = SessionRequest(dict(with_interpreter(settings, python)), master, uses_class_archive)
        return _start_session(request, early, starting)
    if early:
        early.discard()
    if python is not None:
        check_interpreter(running, python)
    requested = dict(settings) | ({"spark.master": master} if master else {})
    return SessionHandle(running, owned=False, warnings=_new_mismatches(running, mismatches(running, requested)))


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


def check_interpreter(session: SparkSession, python: str) -> None:
    """Refuse a session whose workers have another interpreter than ``python``: it cannot be changed any more.

    Raises:
        ConfigurationError: when they have.
    """
    theirs = session.sparkContext.pythonExec
    if (shutil.which(theirs) or theirs) != (shutil.which(python) or python):
        raise ConfigurationError(
            f"python.executable = {python!r}, but the Spark session that is running has workers with {theirs!r}: set "
            f"{PYTHON} where the session is made, or let headrace start one"
        )


def mismatches(session: SparkSession, requested: Mapping[str, str]) -> tuple[SettingMismatch, ...]:
    """The differences between a session and headrace's settings, or those that the user has ``requested``."""
    checked = checked_settings(session.sparkContext.master or "")
    wanted = [setting for setting in checked if setting.key not in requested]
    wanted += [
        SparkSetting(key, value, "asked for, but the session was there before") for key, value in requested.items()
    ]
    found = {setting: _value_in(session, setting) for setting in wanted}
    return tuple(
        SettingMismatch(setting.key, value, setting.value, setting.why)
        for setting, value in found.items()
        if not setting.accepts(value)
    )


def _new_mismatches(session: SparkSession, found: Iterable[SettingMismatch]) -> tuple[SettingMismatch, ...]:
    """The differences that are new in an application: in a notebook, job after job has the same session."""
    application = session.sparkContext.applicationId
    new = tuple(mismatch for mismatch in found if (application, mismatch) not in _reported)
    _reported.update((application, mismatch) for mismatch in new)
    return new


def _value_in(session: SparkSession, setting: SparkSetting) -> str:
    try:
        return session.conf.get(setting.key) or ""
    except PySparkException:  # not set, and the session has no defaults of Spark's core
        return setting.spark_default


def _start_session(request: SessionRequest, early: EarlyJava | None, starting: Callable[[str], None]) -> SessionHandle:
    given = _given_to_spark(request.environment)
    starting(master_of(request.settings, request.master, given))
    taken = early.take(request) if early else None
    start, java = taken or (prepare(request, given), None)
    if start.archive:
        atexit.register(start.archive.make_in_background)
    with _environment(start.variables):
        return _uninterrupted(lambda: _start(start, java, request.settings))


def _uninterrupted(start: Callable[[], SessionHandle]) -> SessionHandle:
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


def _stop_started(starting: Future[SessionHandle]) -> None:
    if starting.exception() is None:
        starting.result().stop()


def _start(start: SessionStart, java: JavaProcess | None, requested: Mapping[str, str]) -> SessionHandle:
    settings = start.settings
    if GATEWAY_PORT not in os.environ and SparkContext._gateway is None:
        _connect(java or JavaProcess(start, os.environ))
    try:
        beginning = start_early(SparkContext.getOrCreate(SparkConf().setAll([*settings.items()])))
        session = SparkSession.builder.config(map={**settings}).getOrCreate()
    except SPARK_ERRORS as error:
        raise not_started(error) from error
    warn_of_misspelled(session.sparkContext, requested)
    return SessionHandle(session, owned=True, beginning=beginning)


def _connect(java: JavaProcess) -> None:
    """Have PySpark use a Java; one that it starts itself would show everybody the settings."""
    with _environment(java.wait()):
        SparkContext._ensure_initialized()
    assert SparkContext._gateway is not None
    SparkContext._gateway.proc = java.process


def _given_to_spark(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that the user gave to Spark itself rather than to headrace."""
    if GATEWAY_PORT in environment:
        SparkContext._ensure_initialized()  # connects to the JVM, which has the arguments of spark-submit
        return dict(SparkConf().getAll())
    return given_to_spark(environment)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables for a while; the user's own sessions do not get them."""
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
