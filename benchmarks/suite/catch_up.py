"""Catching up with a backlog in epochs of headrace's own size: beside the best fixed size, the limit, a neighbour."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING

import psutil

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab
from benchmarks.suite.backlog import Backlog, Runs, race, rate
from benchmarks.suite.window import DUCKDB, truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_TARGET_SECONDS = 1.0
"""The default of headrace.epoch.target-duration."""

_TOLERATED = 1.1
_KEYS = 10_000
_TIMES_THE_EVENTS = 8
"""The backlog is larger than other inputs, so that there are enough epochs of full size."""

_SIZES = (500_000, 1_000_000, 2_000_000, 4_000_000)
_SHARES = ((10_000, 0.35), (1_000_000, 0.40))
"""Keys, and what share of the limit is asked."""

_NEIGHBOUR = """
import random, sys, time
share, bursts = float(sys.argv[1]), random.Random(7)
while True:
    end = time.monotonic() + bursts.uniform(1.0, 4.0)
    while time.monotonic() < end:
        slice_end = time.monotonic() + 0.02 * share
        while time.monotonic() < slice_end:
            pass
        time.sleep(0.02 * (1 - share))
    time.sleep(bursts.uniform(1.0, 4.0))
"""
"""A program that keeps a share of one core busy, in bursts that begin and end at the same times whatever the share."""

_CORES_TAKEN = (1.0, 0.5)
_DEFAULT = "default settings"
_PROGRAM = "headrace_window"


class CatchUpBenchmark:
    """What share of the best fixed size's throughput default settings reach, growing epochs included."""

    name = "catch-up"
    title = "Catching up with a backlog, with default settings"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        data = RandomKeys(scale.files, records // scale.files, _KEYS)
        sizes = _SIZES if not scale.quick else (records // 8,)
        fixed = [Runs(Backlog(data, size, truth), Contestant(_name(size), _PROGRAM)) for size in sizes]
        own = Runs(Backlog(data, records, truth), Contestant(_DEFAULT, _PROGRAM, {"default_sizes": True}))
        found = race(lab, [*fixed, own], scale.rounds)
        defaults = found.pop(_DEFAULT)
        fast_enough = [each for each in found.values() if each.seconds <= _TARGET_SECONDS * _TOLERATED]
        best = max(fast_enough or found.values(), key=rate)
        yield Finding(
            self.name,
            f"windows, {_KEYS:,} int keys, {records:,} records",
            rate(defaults) / rate(best),
            "x",
            Target(0.9, at_least=True),
            {_DEFAULT: defaults} | found,
            "times the records/s of the best fixed size that keeps to the target duration",
        )


class LimitBenchmark:
    """What share of the limit's throughput default settings reach."""

    name = "limit"
    title = "Catching up with a backlog, beside DuckDB's GROUP BY over the same files"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        for keys, limit in _SHARES:
            work = Backlog(RandomKeys(scale.files, records // scale.files, keys), records, truth)
            own = Runs(work, Contestant(_DEFAULT, _PROGRAM, {"default_sizes": True}))
            best = Runs(work, DUCKDB)
            found = race(lab, [own, best], scale.rounds)
            yield Finding(
                self.name,
                f"windows, {keys:,} int keys, {records:,} records",
                rate(found[_DEFAULT]) / rate(found[DUCKDB.name]),
                "x",
                Target(limit, at_least=True),
                found,
                "of the records/s of one batch on two threads, without event time, state or checkpoints",
            )


class NeighbourBenchmark:
    """Throughput beside a busy neighbor, relative to the processor time that the neighbor leaves."""

    name = "neighbour"
    title = "Catching up with a backlog, beside a neighbour that takes a core and a half in bursts"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        work = Backlog(RandomKeys(scale.files, records // scale.files, _KEYS), records, truth)
        alone, beside = (
            Runs(work, Contestant(name, _PROGRAM, {"default_sizes": True})) for name in ("alone", "beside it")
        )
        left: list[float] = []
        for _ in range(scale.rounds):
            alone.add_one(lab)
            with _neighbour(left):
                beside.add_one(lab)
        found = {each.name: each.measured() for each in (alone, beside)}
        yield Finding(
            self.name,
            f"windows, {_KEYS:,} int keys, {records:,} records",
            rate(found[beside.name]) / rate(found[alone.name]) / fmean(left),
            "x",
            Target(0.5, at_least=True),
            found,
            f"times the records/s of the job alone, for the {fmean(left):.0%} of processor time that were left to it",
        )


@contextmanager
def _neighbour(left: list[float]) -> Iterator[None]:
    """Keep processors busy; in the end ``left`` is told the share of their time that was left to others."""
    commands = ([sys.executable, "-c", _NEIGHBOUR, str(share)] for share in _CORES_TAKEN)
    started, processes = time.monotonic(), [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        used = sum(sum(psutil.Process(process.pid).cpu_times()[:2]) for process in processes)
        left.append(1 - used / (time.monotonic() - started) / (os.cpu_count() or 1))
        for process in processes:
            process.kill()
            process.wait()


def _name(size: int) -> str:
    return f"epochs of {size:,}"
