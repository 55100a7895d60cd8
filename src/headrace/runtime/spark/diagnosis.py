"""Finds out whether headrace can run here: the checks behind ``headrace doctor``.

Spark is imported where it is needed only, so that its absence is a finding and not an ``ImportError``.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

import headrace
from headrace.common.errors import HeadraceError, JavaNotFoundError
from headrace.common.java import JAVA_FIX, bundled_java_home, find_java
from headrace.runtime.spark.executors import WorkerReport, ask_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MINIMUM_PYTHON: Final = (3, 11)
_INSTALL_SPARK: Final = "Run: pip install 'headrace[spark]'"
_TASKS_PROBED: Final = 4


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check.

    Attributes:
        name: what was looked at.
        ok: whether it is as headrace needs it.
        found: what is there.
        fix: what to do about it; empty when it is ok.
    """

    name: str
    ok: bool
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class _Requirement:
    """The versions of a package that headrace works with: from ``minimum`` up to, not including, ``below``."""

    package: str
    minimum: tuple[int, ...]
    below: tuple[int, ...] | None
    fix: str

    def check(self) -> Check:
        wanted = ">=" + ".".join(map(str, self.minimum))
        if self.below is not None:
            wanted += ",<" + ".".join(map(str, self.below))
        fix = f"{self.package}{wanted} is needed. {self.fix}"
        try:
            found = version(self.package)
        except PackageNotFoundError:
            return Check(self.package, False, "not installed", fix)
        return _check(self.package, self.accepts(found), found, fix)

    def accepts(self, found: str) -> bool:
        release = _release(found)
        return release >= self.minimum and (self.below is None or release < self.below)


_PYARROW: Final = _Requirement("pyarrow", (18,), None, "Run: pip install -U pyarrow")
_REQUIREMENTS: Final = (
    _Requirement("pyspark", (4, 1), (5,), _INSTALL_SPARK),
    _PYARROW,
    _Requirement("numpy", (2,), None, "Run: pip install -U numpy"),
    _Requirement("pandas", (2, 2), (3,), f"Spark wants it for mapInArrow. {_INSTALL_SPARK}"),
)


def diagnose(settings: Mapping[str, str], master: str | None = None) -> Iterator[Check]:
    """Makes all checks, the quick ones first; Spark is started only when they went well.

    Args:
        settings: the Spark settings that a job would be run with.
        master: the master URL that a job would be run on.

    Yields:
        The outcomes, as they come in.
    """
    failed = False
    for check in (check_python(), *check_packages(), check_java(os.environ)):
        failed = failed or not check.ok
        yield check
    if failed:
        yield Check("Spark session", False, "not tried", "Put the above right first.")
    else:
        yield from _check_spark(settings, master)


def check_python() -> Check:
    """Return whether this interpreter is recent enough."""
    needed = ".".join(map(str, _MINIMUM_PYTHON))
    ok = sys.version_info[:2] >= _MINIMUM_PYTHON
    return _check("Python", ok, platform.python_version(), f"Use Python {needed} or newer.")


def check_packages() -> list[Check]:
    """Return whether the packages that headrace stands on are there, in versions that it works with."""
    return [requirement.check() for requirement in _REQUIREMENTS]


def check_java(environment: Mapping[str, str]) -> Check:
    """Return whether there is a Java that can start Spark."""
    try:
        java = find_java(environment, bundled_java_home())
    except JavaNotFoundError as error:
        return Check("Java", False, str(error).removesuffix(JAVA_FIX).rstrip(), JAVA_FIX)
    return Check("Java", True, f"{java.version} ({java.origin}: {java.home})")


def check_settings(session: SparkSession, settings: Mapping[str, str]) -> list[Check]:
    """Return an outcome for each setting of a session that is not for long jobs, or one for all of them."""
    from headrace.runtime.spark.session import mismatches

    found = mismatches(session, settings)
    if not found:
        return [Check("Spark settings", True, "as headrace wants them")]
    return [
        Check(mismatch.key, False, mismatch.found or "not set", f"Set it to {mismatch.wanted}: else {mismatch.why}.")
        for mismatch in found
    ]


def check_workers(session: SparkSession) -> list[Check]:
    """Return whether the Python workers of the executors can run headrace; runs a tiny job on them."""
    try:
        reports = ask_workers(session, _TASKS_PROBED)
    except Exception as error:  # whatever hinders the job is what the user needs
        fix = "Give the executors the driver's Python (spark.pyspark.python), and pyarrow, with `headrace package`."
        return [Check("Python workers", False, _first_line(error), fix)]
    return _judge(reports)


def _check_spark(settings: Mapping[str, str], master: str | None) -> Iterator[Check]:
    from headrace.runtime.spark.session import acquire_session

    try:
        handle = acquire_session(settings, master)
    except HeadraceError as error:
        found, _, fix = str(error).partition("\n")
        yield Check("Spark session", False, found, " ".join(fix.split()) or "Put that right.")
        return
    except Exception as error:  # whatever hinders the start is what the user needs
        yield Check("Spark session", False, _first_line(error), "Spark's own messages above say more.")
        return
    try:
        where = handle.session.conf.get("spark.master", "a cluster")
        origin = "started for this check" if handle.owned else "was there before"
        yield Check("Spark session", True, f"Spark {handle.session.version} on {where} ({origin})")
        yield from check_settings(handle.session, settings)
        yield from check_workers(handle.session)
    finally:
        handle.stop()


def _judge(reports: list[WorkerReport]) -> list[Check]:
    own_python = _release(platform.python_version())[:2]
    same_python = all(_release(report.python)[:2] == own_python for report in reports)
    pythons = ", ".join(f"{report.python} ({report.executable})" for report in reports)
    same_headrace = all(report.headrace == headrace.__version__ for report in reports)
    arrows = all(_PYARROW.accepts(report.pyarrow) for report in reports)
    return [
        _check("Python of the workers", same_python, pythons, f"Give them Python {platform.python_version()}."),
        _check(
            "headrace in the workers",
            same_headrace,
            _distinct(report.headrace for report in reports),
            f"Install headrace {headrace.__version__} there, or ship it with `headrace package`.",
        ),
        _check("pyarrow in the workers", arrows, _distinct(report.pyarrow for report in reports), _PYARROW.fix),
    ]


def _check(name: str, ok: bool, found: str, fix: str) -> Check:
    return Check(name, ok, found, "" if ok else fix)


def _distinct(versions: Iterator[str]) -> str:
    return ", ".join(sorted({found or "not importable" for found in versions}))


def _release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``4.3.0.dev1`` is (4, 3, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
