"""Older checkpoints that a directory retains: other jobs start from them, and their state is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import Manifest, PendingCommit
from headrace.common.errors import SavepointError, SavepointMissingError
from headrace.datastream.connectors.file_system import OnCheckpointRollingPolicy
from headrace.savepoint.stored_job import fixed, open_job
from headrace.state_processor import SavepointReader
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

FROM = "execution.state-recovery.path"
ROUNDS = 6
RETAINED = 4
KEYS = 10


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, list[Path]]:
    """What a stopped job has left, and its manifests; each round has added one to each total."""
    place = Place(tmp_path_factory.mktemp("job"))
    client = None
    for number in range(ROUNDS):
        place.write(f"{number}", dict.fromkeys(range(KEYS), 1))
        client = client or start(
            place,
            "job",
            2,
            settings={"execution.checkpointing.num-retained": str(RETAINED)},
            policy=OnCheckpointRollingPolicy(),
        )
        wait_for_records(client, KEYS * (number + 1))
    assert client is not None
    client.stop().result(DEADLINE)
    return place, sorted((place.root / "job" / "manifests").glob("*.json"))


def rounds_of(manifest: Path) -> int:
    return int(Manifest.from_bytes(manifest.read_bytes(), "").counters["numRecordsRead"]) // KEYS


@pytest.mark.sampled(1)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_starts_from_each(left: tuple[Place, list[Path]], parallelism: int) -> None:
    place, manifests = left
    assert len(manifests) == RETAINED
    assert rounds_of(manifests[0]) < ROUNDS
    for manifest in manifests:
        name = f"again-{manifest.stem}-{parallelism}"
        client = start(place, name, parallelism, settings={FROM: str(manifest)})
        wait_for_records(client, KEYS * ROUNDS)
        client.stop(drain=True).result(DEADLINE)
        shown = sorted(line for line in place.lines(f"out-{name}") if "ends" not in line)
        expected = [f"k{key} {total}" for key in range(KEYS) for total in range(rounds_of(manifest) + 1, ROUNDS + 1)]
        assert shown == sorted(expected)


def test_state_of_an_earlier_time_is_read(left: tuple[Place, list[Path]]) -> None:
    for manifest in left[1]:
        totals = SavepointReader.read(manifest).read_keyed_state("totals", "total")
        assert totals.column("value").to_pylist() == [rounds_of(manifest)] * KEYS


def test_one_that_is_not_retained_is_told_with_those_that_are(left: tuple[Place, list[Path]]) -> None:
    place, manifests = left
    there = ", ".join(str(int(manifest.stem)) for manifest in manifests)
    with pytest.raises(SavepointMissingError, match=f"has no checkpoint 1: it retains {there} "):
        SavepointReader.read(manifests[0].with_name(f"{1:012}.json"))
    with pytest.raises(SavepointMissingError, match="has no checkpoint 1: it has none"):
        SavepointReader.read(place.root / "nowhere" / "manifests" / f"{1:012}.json")


def test_output_that_the_job_has_yet_to_publish_is_not_left_out(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a", dict.fromkeys(range(KEYS), 1))
    client = start(place, "job", 1, settings={"execution.checkpointing.num-retained": "9"})
    wait_for_records(client, KEYS)
    place.write("b", dict.fromkeys(range(KEYS), 1))
    wait_for_records(client, 2 * KEYS)
    client.stop().result(DEADLINE)
    (older, *_, newest) = sorted((place.root / "job" / "manifests").glob("*.json"))
    rewrite(older, PendingCommit(1, "out", 0, ()))
    again = start(place, "again", 1, ends=True, settings={FROM: str(older)})  # held back: a file that is to grow
    with pytest.raises(SavepointError, match="has yet to publish output"):
        again.get_job_execution_result().result(DEADLINE)
    assert SavepointReader.read(older).manifest.pending == ()
    rewrite(newest, PendingCommit(1, "out", 0, ()))
    assert len(SavepointReader.read(older).manifest.pending) == 1


def rewrite(path: Path, *pending: PendingCommit) -> None:
    path.write_bytes(replace(Manifest.from_bytes(path.read_bytes(), ""), pending=pending).to_bytes())


def test_files_of_one_that_is_fixed_may_go(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a", {0: 1})
    client = start(place, "job", 1)
    wait_for_records(client, 1)
    client.stop().result(DEADLINE)
    (*_, manifest) = sorted((place.root / "job" / "manifests").glob("*.json"))
    logs = list((place.root / "job").rglob("files-*.log"))
    contents = sorted(log.read_bytes() for log in logs)
    assert contents
    copied = fixed(open_job(manifest, {}))
    for log in logs:
        log.unlink()
    assert sorted(content for _, _, content in copied.source_files()) == contents
