"""Runs tests in forks of the process that collected them, so that imports and collection happen once.

``pytest --forks 4`` works on Linux only: elsewhere it is not safe to fork a process that has imported this much. Forks
take one module of tests after another. Tests that share the Spark session or a broker all go to the first fork.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import types
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

import pytest
from _pytest.config import create_terminal_writer

_PATIENCE: Final = 120.0
"""The number of seconds that a fork has to tear down its fixtures."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of forks."""
    parser.addoption("--forks", type=int, default=0, help="how many forks of this process run tests; 0: none")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forks, if ``--forks`` is given and the platform can fork."""
    option = session.config.option
    if not option.forks or option.collectonly or session.testsfailed or sys.platform != "linux":
        return None
    forks = _Forks(session, option.forks)
    try:
        forks.run()
    finally:
        forks.end()
    return True


def _needs_shared_fixture(item: pytest.Item) -> bool:
    markers = {marker.name for marker in item.iter_markers()}
    return not markers.isdisjoint(("spark", "integration")) and "apart" not in markers


class _Fork:
    """A fork, as its parent sees it.

    Attributes:
        left: the numbers of its tests that have not finished.
        last: whether it gets no more tests.
    """

    def __init__(self, session: pytest.Session, name: str) -> None:
        self.left: deque[int] = deque()
        self.last = False
        self.connection, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self.process: BaseProcess = context.Process(target=_run_as_fork, args=(session, theirs, name), name=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # libraries have threads, which are ready for forks
            self.process.start()
        theirs.close()

    def has_ended(self) -> bool:
        """Return whether it has ended and all its messages have been read."""
        return not self.process.is_alive() and not self.connection.poll()

    def receive(self) -> tuple[str, Any] | None:
        """The next message; None at its end."""
        try:
            return self.connection.recv()  # type: ignore[no-any-return]
        except (EOFError, ConnectionError):
            self.process.join(_PATIENCE)
            return None


class _Forks:
    """Gives tests to forks, and passes on their reports."""

    def __init__(self, session: pytest.Session, number: int) -> None:
        self._session = session
        self._number = number
        self._started = 0
        self._running: list[_Fork] = []
        items = range(len(session.items))
        shared = [at for at in items if _needs_shared_fixture(session.items[at])]
        others = (at for at in items if not _needs_shared_fixture(session.items[at]))
        modules = [[*tests] for _, tests in groupby(others, lambda at: session.items[at].path)]
        self._shares = deque([shared] if shared else [])
        self._shares += modules
        self._shared = shared
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self) -> None:
        """Run all tests.

        Raises:
            pytest.Session.Failed: after ``--maxfail`` failures.
        """
        while self._shares or self._running:
            while self._shares and len(self._running) < self._number:
                self._started += 1
                self._running.append(_Fork(self._session, f"fork-{self._started}"))
            waited = [fork.connection for fork in self._running] + [fork.process.sentinel for fork in self._running]
            ready = wait(waited)
            for fork in [*self._running]:
                if fork.connection in ready:
                    self._hear(fork, fork.receive())
                elif fork.has_ended():
                    self._hear(fork, None)
            if self._session.shouldfail:
                raise self._session.Failed(self._session.shouldfail)

    def end(self) -> None:
        """Interrupt the forks that still run, which then tear down their fixtures."""
        for fork in self._running:
            if fork.process.pid and fork.process.is_alive():
                os.kill(fork.process.pid, signal.SIGINT)
        for fork in self._running:
            fork.process.join(_PATIENCE)
            fork.process.kill()

    def _hear(self, fork: _Fork, told: tuple[str, Any] | None) -> None:
        hook = self._session.config.hook
        match told:
            case None:
                self._running.remove(fork)
                self._report_crash(fork)
            case "asked", None:
                self._give(fork)
            case "ended", None:
                fork.left.popleft()
            case "reported", data:
                report = hook.pytest_report_from_serializable(config=self._session.config, data=data)
                hook.pytest_runtest_logreport(report=report)
            case "warned", data:
                hook.pytest_warning_recorded.call_historic(kwargs=data | {"location": None})

    def _give(self, fork: _Fork) -> None:
        """Give a fork its next tests; the one with the Spark session gets no more, and another fork takes over."""
        share = self._shares.popleft() if self._shares and not fork.last else []
        fork.last = fork.last or share is self._shared
        fork.left += share
        fork.connection.send(share)

    def _report_crash(self, fork: _Fork) -> None:
        if not fork.left:
            return
        item = self._session.items[fork.left.popleft()]
        code = fork.process.exitcode
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"the fork that ran it ended with exit code {code}", "call"
        )
        item.ihook.pytest_runtest_logreport(report=report)
        if fork.left:
            self._shares.appendleft([*fork.left])


def _run_as_fork(session: pytest.Session, connection: Connection, name: str) -> None:
    # As in a program of its own: those that tests start would import pytest's main module
    sys.modules["__main__"] = types.ModuleType("__main__")
    config = session.config
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / name
    factory._basetemp.mkdir()
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture.is_globally_capturing():  # into files whose position is shared
        capture.stop_global_capturing()
        capture.start_global_capturing()
    config.pluginmanager.unregister(name="terminalreporter")
    writer = create_terminal_writer(config, sys.stderr)  # for pytest-timeout, which writes the stacks of all threads
    config.get_terminal_writer = lambda: writer  # type: ignore[method-assign]
    reporter = _Reporter(config, connection)
    config.pluginmanager.register(reporter)  # which is told of all warnings so far
    reporter.tells = True
    try:
        _run_tests(session, connection)
    except KeyboardInterrupt:
        pass
    finally:
        session._setupstate.teardown_exact(None)
        atexit._run_exitfuncs()  # multiprocessing leaves them out


def _run_tests(session: pytest.Session, connection: Connection) -> None:
    numbers = _numbers_of_tests(connection)
    number = next(numbers, None)
    while number is not None:
        following = next(numbers, None)
        next_item = None if following is None else session.items[following]
        session.config.hook.pytest_runtest_protocol(item=session.items[number], nextitem=next_item)
        connection.send(("ended", None))
        number = following


def _numbers_of_tests(connection: Connection) -> Iterator[int]:
    while True:
        connection.send(("asked", None))
        share: Sequence[int] = connection.recv()
        if not share:
            return
        yield from share


class _Reporter:
    """The plugin of a fork that sends reports and warnings to its parent.

    Attributes:
        tells: whether it already sends warnings.
    """

    tells = False

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection
        self._shows_durations = config.getoption("durations", None) is not None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report, unless it says no more than that a test has been set up or torn down."""
        if report.when != "call" and report.passed and not self._shows_durations:
            return
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("reported", data))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        """Send a warning."""
        if self.tells:
            self._connection.send(("warned", {"warning_message": warning_message, "when": when, "nodeid": nodeid}))
