"""Programs as forks of a process that has imported everything: most of a short life would be spent on that."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import multiprocessing
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.processes import SOURCES, TESTS, Running, Starter
from tests.waiting import PATIENCE

_PROGRAMS: Final = "tests.reliability.programs."
_IMPORTED: Final = (
    "canonical",
    "joins",
    "kafka_sink",
    "kafka_to_kafka",
    "log_to_log",
    "long_job",
    "statements",
    "tables",
    "window_paths",
    "word_count",
)
_IMPORTED_BY_COMMANDS: Final = (
    "headrace.cli.main",
    "headrace.cli.run",
    "headrace.runtime.local",
    "pyarrow.pandas_compat",
)


class Forked(Running):
    """A program that runs in a process of its own, as long as a function does.

    Args:
        run: the function.
        arguments: its arguments.
        folder: where it runs; its output is kept there.
    """

    def __init__(self, run: Callable[..., None], arguments: tuple[object, ...], folder: Path) -> None:
        self._output = folder / f"output-{time.monotonic_ns()}.txt"
        self._errors = self._output.with_suffix(".errors")
        self._output.touch()
        self._errors.touch()
        context = multiprocessing.get_context("forkserver")
        told = (run, tuple(map(str, arguments)), dict(os.environ), self._output, self._errors)
        self._fork = context.Process(target=_begin, args=told)
        self._fork.start()
        assert self._fork.pid is not None
        self._pid = self._fork.pid

    @property
    def code(self) -> int | None:
        return self._fork.exitcode

    def clean_up(self) -> None:
        if self._fork.is_alive():
            os.kill(self._pid, signal.SIGKILL)
        self._fork.join(PATIENCE)


class Forks(Starter):
    """Starts programs as forks."""

    def start(self, program: str, *arguments: object) -> Forked:
        return self._start(_run_program, program, *arguments)

    def start_command(self, *arguments: object) -> Forked:
        return self.start_module("headrace", *arguments)

    def start_module(self, module: str, *arguments: object) -> Forked:
        """Start what ``python -m`` starts."""
        return self._start(_run_module, module, *arguments)

    def _start(self, run: Callable[..., None], *arguments: object) -> Forked:
        running = Forked(run, arguments, self.folder)
        self._started.append(running)
        return running


@contextmanager
def launcher_of_forks(folder: Path) -> Iterator[Forks]:
    """A launcher that leaves no program behind; the process that is forked stays until the tests end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCES), str(TESTS)]))
        patch.setenv("COLUMNS", "200")
        multiprocessing.set_forkserver_preload([*_IMPORTED_BY_COMMANDS, *(_PROGRAMS + name for name in _IMPORTED)])
        started = Forks(folder)
        try:
            yield started
        finally:
            started.clean_up()


def _begin(
    run: Callable[..., None], arguments: tuple[str, ...], environment: dict[str, str], output: Path, errors: Path
) -> None:
    gc.freeze()  # what has been imported is no garbage
    os.fsync = os.fstat  # type: ignore[assignment]  # as in the process of the tests
    os.setsid()
    for path, descriptor in ((output, 1), (errors, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True)
    os.environ.update(environment)
    os.chdir(output.parent)
    try:
        run(*arguments)
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out


def _run_program(program: str, *arguments: str) -> None:
    module = _PROGRAMS + program
    sys.argv = [module, *arguments]
    importlib.import_module(module).main(*arguments)


def _run_module(module: str, *arguments: str) -> None:
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
