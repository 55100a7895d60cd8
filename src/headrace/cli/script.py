"""Runs a program as Python itself would: as ``__main__``, with its own arguments and its own folder to import from."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def run_script(script: Path, arguments: Sequence[str]) -> None:
    """Run a program to its end; whatever it raises comes through."""
    with _surroundings(script, arguments):
        runpy.run_path(str(script), run_name="__main__")


@contextmanager
def _surroundings(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
