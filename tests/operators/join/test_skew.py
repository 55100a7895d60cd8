"""Joins in which one key has half of all records: what they find is right, and they take little memory for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.operators.join.skewed_joins import KEYS, NEAR, WINDOW, records_of

Longs = npt.NDArray[np.int64]

MOST_MIB = 600
"""With all libraries; twenty million pairs in memory would take more than a gigabyte."""


def pairs_near(left: tuple[Longs, Longs], right: tuple[Longs, Longs]) -> int:
    places = [np.sort(key * 10**9 + time) for key, time in (left, right)]
    first, last = (np.searchsorted(places[1], places[0] + bound, side) for bound, side in BOUNDS)
    return int((last - first).sum())


BOUNDS = ((-NEAR, "left"), (NEAR, "right"))


def pairs_in_windows(left: tuple[Longs, Longs], right: tuple[Longs, Longs]) -> int:
    lefts, rights = (np.bincount(time // WINDOW * KEYS + key, minlength=10**7) for key, time in (left, right))
    return int((lefts * rights).sum())


def windows_of_keys(left: tuple[Longs, Longs], right: tuple[Longs, Longs]) -> int:
    return len(np.unique(np.concatenate([time // WINDOW * KEYS + key for key, time in (left, right)])))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("interval", pairs_near), ("window", pairs_in_windows), ("co-group", windows_of_keys)],
)
def test_a_key_with_half_of_all_records(kind: str, expected: Callable[..., int], tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.operators.join.skewed_joins", str(tmp_path), kind]
    ended = subprocess.run(program, capture_output=True, text=True, check=True)
    found, mib = map(int, ended.stdout.split()[-2:])
    assert found == expected(*(records_of(seed) for seed in (0, 1)))
    assert mib < MOST_MIB
