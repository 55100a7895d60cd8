"""Rules on a full disk, or whose checkpoints are damaged: the answer is right, or an error names the file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headrace.common.errors import HeadraceError
from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND
from tests.reliability.programs import patterns
from tests.reliability.support.damages import CASES, Damage, Scene
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.full_disk import FullDisk
from tests.reliability.support.outputs import lines
from tests.reliability.support.patterns import expected_lines

pytestmark = pytest.mark.slow

ONCE = {"restart-strategy.type": "none"}


def run(folder: Path, backend: str = DEFAULT_BACKEND) -> None:
    """Run the program in this process, once."""
    FaultPlan(folder / "faults")
    patterns.main(str(folder), str(folder / "faults"), "local", "2", backend, **ONCE)


def is_right(folder: Path) -> bool:
    """Whether all is there, once."""
    return all(sorted(lines(folder / "output" / name)) == right for name, right in expected_lines().items())


@pytest.mark.parametrize("backend", [DEFAULT_BACKEND, ROCKSDB_BACKEND])
@pytest.mark.parametrize("room", [3_000, 40_000, 120_000])
def test_the_disk_of_the_checkpoints_is_full(
    room: int, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(lambda path: path.startswith(str(tmp_path / "checkpoints")), room)
    monkeypatch.setattr(os, "write", disk.write)
    with pytest.raises((OSError, HeadraceError), match="No space left"):
        run(tmp_path, backend)
    assert disk.failed > 0
    disk.is_full = False
    run(tmp_path, backend)
    assert is_right(tmp_path)


@pytest.mark.parametrize("case", ["flipped-in-the-middle", "half", "deleted"])
def test_damage_is_an_error_or_no_matter(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tmp_path / "whole"
    disk = FullDisk(lambda path: path.startswith(str(whole / "checkpoints")), 90_000)
    monkeypatch.setattr(os, "write", disk.write)
    with pytest.raises((OSError, HeadraceError), match="No space left"):
        run(whole)
    disk.is_full = False
    damage: Damage = CASES[case][1]
    files = [path.relative_to(whole) for path in sorted((whole / "checkpoints").rglob("*.state"))]
    told: dict[str, str] = {}
    for number, file in enumerate(files[-12:]):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        damage(Scene([folder / file], folder / file, folder / file))
        try:
            run(folder)
        except HeadraceError as error:
            told[file.name] = str(error)
        else:
            assert is_right(folder)
    assert told
    assert [name for name, error in told.items() if name not in error] == []
