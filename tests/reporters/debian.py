"""Programs of Debian's packages, fetched where they are not installed; the machine stays as it is."""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def fetch(package: str, into: Path) -> Path:
    """The folder with the programs of a package."""
    if program := shutil.which(package):
        return Path(program).parent
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip(f"there is no {package}, and no apt-get to fetch it with")
    done = subprocess.run(["apt-get", "download", package], cwd=into, capture_output=True, text=True, check=False)
    archives = list(into.glob(f"{package}_*.deb"))
    if not archives:
        pytest.skip(f"{package} cannot be fetched: {done.stderr[-300:]}")
    subprocess.run(["dpkg-deb", "-x", str(archives[0]), str(into / package)], check=True)
    return into / package / "usr" / "bin"


@contextmanager
def server(command: list[str], url: str, log: Path) -> Iterator[None]:
    """Inside, a server runs that answers at a URL."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            until = time.monotonic() + 60
            while not _answers(url):
                assert process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < until, log.read_text()[-2000:]
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
