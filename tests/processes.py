"""Programs in processes of their own, which can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

import headrace
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SOURCES = Path(headrace.__file__).parents[1]
TESTS = Path(__file__).parents[1]
PROGRAMS = Path(__file__).parent / "reliability" / "programs"


@dataclass(frozen=True, repr=False)
class Ended:
    """A program that has ended.

    Attributes:
        code: its exit code; negative for a signal.
        output: its standard output.
        errors: its standard error.
    """

    code: int
    output: str
    errors: str

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- output\n{self.output[-3000:]}\n--- errors\n{self.errors[-6000:]}"


class Running:
    """A program that runs.

    Args:
        command: what to run.
        folder: where it runs; its output is kept there.
    """

    def __init__(self, command: list[str], folder: Path) -> None:
        self._output = folder / f"output-{time.monotonic_ns()}.txt"
        self._errors = self._output.with_suffix(".errors")
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(SOURCES), str(TESTS)]),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "200",
        }
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        self._pid = self._process.pid

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._pid

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._output.read_text(errors="replace")

    @property
    def errors(self) -> str:
        """What it has written to the standard error so far."""
        return self._errors.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """The exit code; None as long as it runs.

        The process is not reaped before :meth:`clean_up`: as long as it is a zombie nobody else gets its id.
        """
        found = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def wait(self, timeout: float = PATIENCE) -> Ended:
        """Until it has ended."""
        end = time.monotonic() + timeout
        while (code := self.code) is None:
            assert time.monotonic() < end, f"the program does not end: {self.kill()}"
            time.sleep(0.02)
        return Ended(code, self.output, self.errors)

    def wait_until(self, text: str, times: int = 1, timeout: float = PATIENCE) -> None:
        """Until it has said something so many times."""
        self._wait_for(lambda: max(self.output.count(text), self.errors.count(text)) >= times, repr(text), timeout)

    def wait_for_output(self, lines: int = 1) -> None:
        """Until it has printed so many lines: its job runs."""
        self._wait_for(lambda: self.output.count("\n") >= lines, f"{lines} lines")

    def _wait_for(self, is_said: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        end = time.monotonic() + timeout
        while not is_said():
            if self.code is not None or time.monotonic() > end:
                raise AssertionError(f"the program never said {what}: {self.kill()}")
            time.sleep(0.02)

    def interrupt(self) -> None:
        """Press Ctrl-C: a terminal sends the signal to all processes in front of it."""
        os.killpg(self._pid, signal.SIGINT)

    def terminate(self) -> None:
        """Ask the driver to end, as a service manager does."""
        os.kill(self._pid, signal.SIGTERM)

    def children(self) -> list[psutil.Process]:
        """The processes that it has started itself."""
        return psutil.Process(self._pid).children()

    @property
    def stands_still(self) -> bool:
        """Whether a signal has stopped it."""
        return psutil.Process(self._pid).status() == psutil.STATUS_STOPPED

    def wait_until_it_stands_still(self, timeout: float = PATIENCE) -> None:
        """Until a signal has stopped it."""
        end = time.monotonic() + timeout
        while not self.stands_still:
            assert self.code is None, self.wait()
            assert time.monotonic() < end, self.kill()
            time.sleep(0.02)

    def stand_still(self) -> None:
        """Stop the driver where it is, with all its threads."""
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Wake the driver up that stands still."""
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> Ended:
        """Kill the driver with SIGKILL, and nothing else; it may have ended."""
        if self.code is None:
            os.kill(self._pid, signal.SIGKILL)
        return self.wait()

    def clean_up(self) -> None:
        """End everything that it has started."""
        os.killpg(self._pid, signal.SIGKILL)
        self._process.wait(PATIENCE)


class Starter(ABC):
    """Starts programs.

    Args:
        folder: where they run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Running] = []

    @abstractmethod
    def start(self, program: str, *arguments: object) -> Running:
        """Start a program, which is a module of the package ``programs``."""

    @abstractmethod
    def start_command(self, *arguments: object) -> Running:
        """Start the ``headrace`` command."""

    def run_until_it_succeeds(self, program: str, *arguments: object, most: int) -> list[Ended]:
        """Run a program again and again; gives the runs that failed."""
        return self.run_in_turns(program, [arguments], most=most)

    def run_in_turns(self, program: str, turns: Iterable[Sequence[object]], most: int) -> list[Ended]:
        """Run a program until it succeeds, each time with the next arguments; gives the runs that failed."""
        failed: list[Ended] = []
        for arguments in cycle(turns):
            ended = self.start(program, *arguments).wait()
            if ended.code == 0:
                return failed
            failed.append(ended)
            assert len(failed) <= most, f"{len(failed)} runs failed, at most {most} should: {ended}"
        raise AssertionError("there are no arguments")

    def clean_up(self) -> None:
        """End everything that was started."""
        for running in self._started:
            running.clean_up()


class Launcher(Starter):
    """Starts programs as a shell does."""

    def start(self, program: str, *arguments: object) -> Running:
        return self._start([sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, arguments)])

    def start_command(self, *arguments: object) -> Running:
        return self._start([sys.executable, "-m", "headrace", *map(str, arguments)])

    def _start(self, command: list[str]) -> Running:
        running = Running(command, self.folder)
        self._started.append(running)
        return running


@contextmanager
def launcher(folder: Path) -> Iterator[Launcher]:
    """A launcher that leaves no process behind."""
    started = Launcher(folder)
    try:
        yield started
    finally:
        started.clean_up()
