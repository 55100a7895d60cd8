"""The memory of a program: its JVM, its driver and its Python workers, looked at from outside while it runs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import psutil

_INTERVAL_SECONDS = 0.2
MIB = 1 << 20

JVM, DRIVER, WORKER, DAEMON, OTHER = "jvm", "driver", "worker", "daemon", "other"


_WORKERS = frozenset({"pyspark.worker", "headrace.runtime.spark.background_process"})
"""Modules that do the work of tasks."""

_DAEMONS = frozenset({"pyspark.daemon", "headrace.runtime.spark.worker_daemon"})
"""The modules that fork Python workers."""


def role_of(name: str, command: Sequence[str], parent_is_daemon: bool, is_root: bool) -> str:
    """What a process of a PySpark program is.

    Args:
        name: the process's name.
        command: its command line.
        parent_is_daemon: whether it was forked by a daemon; a worker has the daemon's command line.
        is_root: whether it is the program itself.
    """
    if is_root:
        return DRIVER
    if parent_is_daemon:
        return WORKER
    if name.startswith("java"):
        return JVM
    if not _DAEMONS.isdisjoint(command):
        return DAEMON
    return WORKER if not _WORKERS.isdisjoint(command) else OTHER


@dataclass(slots=True)
class Peaks:
    """The largest resident memory of any one process of each kind, in bytes."""

    by_role: dict[str, int] = field(default_factory=dict)

    def see(self, role: str, resident: int) -> None:
        """Take a look into account."""
        self.by_role[role] = max(self.by_role.get(role, 0), resident)

    def merge(self, other: Peaks) -> None:
        """Take another program's peaks into account."""
        for role, resident in other.by_role.items():
            self.see(role, resident)

    def mebibytes(self) -> dict[str, float]:
        """For people."""
        return {role: round(size / MIB) for role, size in sorted(self.by_role.items())}


def resident_by_role(root: psutil.Process) -> list[tuple[str, int]]:
    """The role and the resident memory of a process and of all its descendants, as far as they live on."""
    found: list[tuple[str, int]] = []
    for role, process in processes_by_role(root):
        with contextlib.suppress(psutil.Error):
            found.append((role, process.memory_info().rss))
    return found


def processes_by_role(root: psutil.Process) -> list[tuple[str, psutil.Process]]:
    """A process and all its descendants, as far as they live on, each with its role."""
    found: list[tuple[str, psutil.Process]] = []
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return found
    daemons: set[int] = set()
    for process in processes:
        try:
            with process.oneshot():
                role = role_of(process.name(), process.cmdline(), process.ppid() in daemons, process is root)
        except psutil.Error:
            continue
        if role != OTHER:  # shells that start others, and forks of the JVM that are about to become something
            found.append((role, process))
        if role == DAEMON:
            daemons.add(process.pid)
    return found


class MemoryWatch:
    """Looks at a process and its descendants again and again, in a ``with`` block.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)
        self.peaks = Peaks()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        try:
            root = psutil.Process(self._pid)
        except psutil.Error:
            return
        while not self._stop.wait(_INTERVAL_SECONDS):
            for role, resident in resident_by_role(root):
                self.peaks.see(role, resident)


def processor_seconds(pid: int | None = None) -> float:
    """The CPU time so far of a process, by default this one, and of the processes that it started."""
    root = psutil.Process(pid)
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def children_seconds() -> float:
    """The CPU time of those processes that this one has started, and has seen the end of."""
    times = os.times()
    return times.children_user + times.children_system
