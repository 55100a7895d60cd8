"""Writing, renaming and removing files so that it outlasts a power failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; what exists is left alone."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(folders: Iterable[Path]) -> None:
    """Make the names in some folders durable, each once."""
    for folder in sorted(set(folders)):
        sync_folder(folder)


def size_of(path: Path) -> int | None:
    """A file's size; None when it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
