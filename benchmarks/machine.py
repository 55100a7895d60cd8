"""On what, with what and when: without it figures mean nothing."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import headrace
from headrace.common.java import bundled_java_home, find_java

_PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas")


def description() -> dict[str, str]:
    """The machine and the versions, by name."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "headrace": headrace.__version__,
        "Python": platform.python_version(),
        "Java": _java(),
        **dict(_packages()),
    }


def _packages() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _java() -> str:
    program = find_java(os.environ, bundled_java_home()).home / "bin" / "java"
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    lines = (done.stderr + done.stdout).splitlines()
    return next((line.split('"')[1] for line in lines if "version" in line), "unknown")
