"""What each release has left of a job with all kinds of state: others go on from it, and give what that would have."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from headrace.state_processor import SavepointReader
from tests.golden.archives import ARCHIVES, MOST_BYTES, unpack
from tests.golden.golden_job import BACKENDS, LAST_TIMER, THIRD, finish, published, start, write

RELEASES = ["0.1.0"]
KINDS = ["checkpoint", "savepoint", "native"]
KEPT = [f"{release}-{backend}-{kind}" for release in RELEASES for backend in BACKENDS for kind in KINDS]
FROM = "execution.state-recovery.path"


def backend_of(name: str) -> str:
    return name.split("-")[-2]


def goes_on(folder: Path, kept: Path, parallelism: int, backend: str, settings: dict[str, str]) -> None:
    """The job that goes on has the rest of the input, and publishes what is expected."""
    expected = json.loads((kept / "expected.json").read_text())
    records = write(folder, "c", THIRD)
    finish(start(folder, parallelism, backend, settings), expected["records"] + records)
    assert published(folder) == Counter(expected["lines"])


def test_each_release_has_one_of_every_kind_and_all_are_small() -> None:
    assert sorted(KEPT) == sorted(path.stem for path in ARCHIVES.glob("[0-9]*.zip"))
    assert all(path.stat().st_size < MOST_BYTES for path in ARCHIVES.iterdir())


ALWAYS = {("hashmap-native", 1), ("rocksdb-native", 3), ("rocksdb-checkpoint", 1)}
"""What is tried whenever tests run, and with what parallelism; the tests below start from the others."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "parallelism"),
    [
        pytest.param(name, many, marks=() if (name.split("-", 1)[1], many) in ALWAYS else pytest.mark.slow)
        for name in KEPT
        for many in (1, 3)
    ],
)
def test_a_job_starts_from_it(name: str, parallelism: int, tmp_path: Path) -> None:
    kept = unpack(name, tmp_path / "kept")
    goes_on(tmp_path, kept, parallelism, backend_of(name), {FROM: str(kept)})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [name for name in KEPT if name.endswith("checkpoint")])
def test_a_job_goes_on_in_it(name: str, tmp_path: Path) -> None:
    kept = unpack(name, tmp_path / "job")
    goes_on(tmp_path, kept, 2, backend_of(name), {})


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KEPT if name.endswith("savepoint")])
def test_a_job_starts_from_it_under_another_backend_and_max_parallelism(name: str, tmp_path: Path) -> None:
    kept = unpack(name, tmp_path / "kept")
    (other,) = (backend for backend in BACKENDS if backend != backend_of(name))
    goes_on(tmp_path, kept, 3, other, {FROM: str(kept), "pipeline.max-parallelism": "31"})


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name.endswith("rocksdb-checkpoint") else pytest.mark.slow) for name in KEPT],
)
def test_a_job_on_spark_starts_from_it(name: str, tmp_path: Path) -> None:
    kept = unpack(name, tmp_path / "kept")
    spark = {"headrace.runtime": "spark", "headrace.spark.master": "local[2]"}
    goes_on(tmp_path, kept, 3, backend_of(name), {FROM: str(kept)} | spark)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KEPT)
def test_it_is_read_as_data(name: str, tmp_path: Path) -> None:
    reader = SavepointReader.read(str(unpack(name, tmp_path)))
    states: dict[str, set[str]] = {}
    for state in reader.states():
        states.setdefault(state.uid, set()).add(state.store)
    assert set(states) == WITH_STATE
    assert {"state/value", "state/list", "state/map", "state/most", "state/mean", "state/lasting"} < states["states"]
    assert states["ledger"] == {"list/own", "union/all"}
    timers = reader.read_timers("states").to_pylist()
    assert Counter(timer["time"] for timer in timers) == {1_000_000: 7, LAST_TIMER: 7}


WITH_STATE = {
    "states",
    "tumbling",
    "sliding",
    "sessions",
    "counts",
    "reduced",
    "contents",
    "session-contents",
    "rolling",
    "by-anything",
    "interval",
    "joined",
    "ruled",
    "ledger",
}
