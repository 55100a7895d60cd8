"""A look into the checkpoint directory of a job that somebody else runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import Manifest
from tests.processes import PATIENCE

if TYPE_CHECKING:
    from tests.processes import Running


def manifests(folder: Path) -> list[Path]:
    """The manifests of the job in a folder, the newest last."""
    return sorted((folder / "checkpoints" / "manifests").glob("[0-9]*.json"))


def newest_manifest(folder: Path) -> Manifest:
    """The newest manifest of a job that does not run."""
    path = manifests(folder)[-1]
    return Manifest.from_bytes(path.read_bytes(), str(path))


def wait_for_manifest(number: int, running: Running, folder: Path) -> None:
    """Until a program has come so far."""
    end = time.monotonic() + PATIENCE
    while not any(int(path.stem) >= number for path in manifests(folder)):
        assert time.monotonic() < end, running.kill()
        assert running.code is None, running.wait()
        time.sleep(0.02)


def left_overs(checkpoints: Path) -> list[str]:
    """Files that killed drivers have left in the checkpoint directory."""
    every = (path.relative_to(checkpoints) for path in checkpoints.rglob("*") if path.is_file())
    return [str(path) for path in every if path.name.startswith(".") and not path.name.startswith(".probe-")]
