"""``headrace run``: runs a program, and stops its jobs at Ctrl-C or SIGTERM where they can go on."""

import runpy
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from rich.console import Console

from headrace.cli.output import OK, report, without_job
from headrace.client import running
from headrace.client.displays import ProgressListener, listener_for
from headrace.client.running import is_served, submission_defaults
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import JobCancelledError, showing_all, shows_all
from headrace.common.logs import LogSettings
from headrace.runtime.spark.session_start import EarlyJava

_AGAIN = {signal.SIGINT: "press Ctrl-C again", signal.SIGTERM: "send SIGTERM again"}

_WAKE_SECONDS = 0.1


class InterruptGuard:
    """Turns SIGINT and SIGTERM into an orderly stop while it is entered; to be used in the main thread.

    A program that has no job running then gets its ``KeyboardInterrupt``, or a ``SystemExit`` for SIGTERM, and so does
    one in the third time.

    Python runs signal handlers in the main thread, which waits for the job meanwhile, and when the system hands the
    signal to another thread nothing wakes it. So the handler is not relied on: a thread of the guard's own reads the
    signals from the wake-up descriptor, which is written to in whichever thread they arrive.

    Args:
        say: called with what the user is to know, in the guard's thread.

    Attributes:
        presses: how often Ctrl-C was pressed, or SIGTERM sent.
        exit_code: what a shell gives for a program that ended by the signal that came last.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.presses = 0
        self.exit_code = 0
        self._say = say
        self._raises = threading.Event()
        self._own_signals = 0
        self._thread = threading.Thread(target=self._watch, name="headrace-signals", daemon=True)

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._handlers_before: dict[int, Any] = {
            number: signal.signal(number, self._in_main_thread) for number in _AGAIN
        }
        self._descriptor_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._raises.clear()
        signal.set_wakeup_fd(self._descriptor_before)
        for number, handler in self._handlers_before.items():
            # None: it was not set from Python, and cannot be set again from Python
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def job_started(self) -> None:
        """A program that goes on to its next job after Ctrl-C is stopped there as well."""
        if self.presses:
            running.stop_all()

    def _watch(self) -> None:
        while received := self._next():
            number = received[0]
            if number not in _AGAIN:
                continue
            if self._own_signals:
                self._own_signals -= 1
            else:
                self._pressed(number)

    def _next(self) -> bytes:
        """The next signal, or nothing at the end.

        A signal that comes just before the main thread begins to sleep does not wake it, so it gets another one as long
        as it has not raised.
        """
        while True:
            self._reader.settimeout(_WAKE_SECONDS if self._raises.is_set() else None)
            try:
                return self._reader.recv(1)
            except TimeoutError:
                if self._raises.is_set() and not self._own_signals:
                    self._wake_main_thread()

    def _pressed(self, number: int) -> None:
        self.presses += 1
        self.exit_code = 128 + number
        if not running.end_all(self.presses, _AGAIN[signal.Signals(number)], self._say):
            self._raises.set()
            self._wake_main_thread()

    def _wake_main_thread(self) -> None:
        self._own_signals += 1
        signal.pthread_kill(threading.main_thread().ident or 0, self.exit_code - 128)

    def _in_main_thread(self, number: int, _frame: FrameType | None) -> None:
        if self._raises.is_set():
            self._raises.clear()
            if number == signal.SIGTERM:
                raise SystemExit(128 + number)
            raise KeyboardInterrupt


def run_program(
    script: Path,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    *,
    progress: bool | None = None,
    full_traceback: bool = False,
    console: Console | None = None,
    body: Callable[[], None] | None = None,
) -> int:
    """Run a program to its end.

    Args:
        script: the program.
        arguments: its arguments.
        settings: win over the configuration that the program itself makes.
        progress: whether to show what jobs do; None for the usual.
        full_traceback: whether errors are shown with all that is known.
        console: where to show it; the standard error when left out.
        body: what to run in place of the file as a program of Python; it need not have a job.

    Returns:
        The exit code.
    """
    configuration = Configuration.from_dict(settings)
    early_java = EarlyJava.for_program(script, configuration)
    LogSettings.of(configuration).apply()
    console = console or Console(stderr=True)
    listener = listener_for(console, progress=configuration.get(options.PROGRESS) if progress is None else progress)
    if is_served(configuration):
        listener.served(_address(configuration))
    if early_java is not None:
        listener.starting(f"Spark, master {early_java.master}")
    error: BaseException | None = None
    submitted: Sequence[str] = ()
    with InterruptGuard(listener.say) as guard:
        listener.on_start = guard.job_started
        try:
            surroundings = submission_defaults(settings, listener, early_java, whole_process=True)
            with showing_all(full_traceback), surroundings as defaults:
                submitted = defaults.submitted
                run_script(script, arguments) if body is None else body()
        except BaseException as raised:
            error = raised
        finally:
            listener.close()
    if error is None and body is None and not submitted and not guard.presses:
        return without_job(script, console)
    return _end(error, guard, listener, settings, full_traceback=full_traceback, script=script)


def _address(configuration: Configuration) -> str:
    """Return where the jobs of the program are served from now on."""
    from headrace.client.submission import start_server  # while Java starts

    return start_server(configuration).address


def _end(
    error: BaseException | None,
    guard: InterruptGuard,
    listener: ProgressListener,
    settings: Mapping[str, str],
    *,
    full_traceback: bool,
    script: Path,
) -> int:
    """Say how it ended; after Ctrl-C or SIGTERM, how to go on."""
    # A job that was cancelled at the user's wish says so by an error; the user knows
    expected = guard.presses > 0 and isinstance(error, JobCancelledError | KeyboardInterrupt | SystemExit)
    code = OK
    if error is not None and not (expected and not full_traceback):
        code = report(error, listener.console, script, full=full_traceback or shows_all())
    if not guard.presses or (error is not None and not expected):
        return code
    listener.say(_how_to_go_on(listener.last_epochs, settings))
    return guard.exit_code


def _how_to_go_on(last_epochs: Mapping[str, int], settings: Mapping[str, str]) -> str:
    if not last_epochs:
        return "interrupted before the first epoch was complete"
    where = ", ".join(f"epoch {epoch} of job {name!r}" for name, epoch in last_epochs.items())
    if options.CHECKPOINT_DIR.key in settings:
        return f"stopped after {where}; run the same command again to go on from there"
    return (
        f"stopped after {where}; the same command goes on from there if the program sets a checkpoint directory, "
        "else give one with --checkpoint-dir"
    )


def run_script(script: Path, arguments: Sequence[str]) -> None:
    """Run a program to its end; whatever it raises comes through."""
    with _surroundings(script, arguments):
        runpy.run_path(str(script), run_name="__main__")


@contextmanager
def _surroundings(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv = sys.argv
    sys.argv = [str(script), *arguments]
    try:
        with importing_from(script.parent):
            yield
    finally:
        sys.argv = argv


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Look for modules in a folder first, as Python does for the program in it."""
    path = list(sys.path)
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path[:] = path
