"""The Java process of a session: started, waited for, handed over to PySpark; or ended when nobody wants it."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from headrace.common import options
from headrace.common.durable import TemporaryFolder
from headrace.common.errors import ConfigurationError, HeadraceError, JobExecutionError
from headrace.runtime.spark.session_start import (
    GATEWAY_PORT,
    SUBMIT_ARGUMENTS,
    SessionRequest,
    given_to_spark,
    prepare,
    settings_by_file,
    spark_home,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.configuration import Configuration
    from headrace.runtime.spark.session_start import SessionStart


_SECONDS: Final = 1.0


def destination() -> int | None:
    """Where a Java is to write its errors: a pipe to here when they end on a terminal, else where this process does."""
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
        """Pass nothing on any more; the stream is still read, so that whoever writes to it need not wait."""
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
"""Names the file in which Java says how to reach it."""

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
                        self._relay.join()  # what it said comes first
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

    Python sees to the other variables of that locale for itself and its children, but for this one.
    """
    return {"LC_ALL": "C.UTF-8"} if environment.get("LC_ALL") in {"C", "POSIX"} else {}


class EarlyJava:
    """A Java that starts while the program is still being imported, for the session that it will probably want.

    Args:
        request: that session.

    Attributes:
        master: the master of that session.
    """

    @staticmethod
    def for_program(script: Path, configuration: Configuration) -> EarlyJava | None:
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
        except (OSError, ConfigurationError):  # told when the program runs
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
            None where another session is wanted, and where it did not come up: who starts one then is told why.
        """
        if request != self._request:
            self.discard()
            return None
        found = self._started.result()
        with self._lock:
            is_wanted, self._is_wanted = self._is_wanted, False
        return found if is_wanted else None

    def discard(self) -> None:
        """End the process, unless somebody has taken it."""
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
        except (OSError, HeadraceError):  # whoever wants a session starts it anew, and is told
            return None
