"""A damaged checkpoint is either no matter or a typed error that names the file; the answer is never silently wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import Manifest
from headrace.common.errors import CheckpointError, StateCorruptedError
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.small_jobs import SmallJob, WatchedSink, expected

KIND = KINDS[0]
STOPPED_AT = 5

Damage = Callable[[Path], None]


def cut(share: float) -> Damage:
    """Keep so much of the file."""
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def flip(share: float) -> Damage:
    """Change one bit of the byte at such a place of the file."""

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(int(len(content) * share), len(content) - 1)] ^= 1
        path.write_bytes(bytes(content))

    return damage


DAMAGES: dict[str, Damage] = {
    "deleted": Path.unlink,
    "empty": cut(0.0),
    "half": cut(0.5),
    "flipped-at-the-start": flip(0.0),
    "flipped-in-the-middle": flip(0.5),
    "flipped-at-the-end": flip(1.0),
}


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    """A job that has been stopped."""
    sink = WatchedSink(KIND.make(tmp_path / "output"))
    stopped = SmallJob(tmp_path, sink, {"execution.checkpointing.num-retained": "1"})
    stopped.run(stop_after=STOPPED_AT)
    return stopped


def newest_manifest(job: SmallJob) -> Path:
    return sorted(job.manifests.glob("[0-9]*.json"))[-1]


def newest_state_file(job: SmallJob) -> Path:
    path = newest_manifest(job)
    manifest = Manifest.from_bytes(path.read_bytes(), str(path))
    newest = max(manifest.state_files(), key=lambda name: tuple(map(int, name.split("-")[:2])))
    return job.folder / "checkpoints" / "state" / newest


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("find", [newest_manifest, newest_state_file], ids=["manifest", "state-file"])
def test_damage_is_found_out(find: Callable[[SmallJob], Path], damage: Damage, job: SmallJob, tmp_path: Path) -> None:
    before = KIND.records(tmp_path / "output")
    assert before
    assert set(before) < set(expected())
    file = find(job)
    intact = tmp_path / "intact"
    shutil.copy2(file, intact)
    damage(file)
    with pytest.raises((CheckpointError, StateCorruptedError)) as caught:
        job.run()
    assert file.name in str(caught.value)
    assert KIND.records(tmp_path / "output") == before, "nothing was written on top of a damaged checkpoint"
    shutil.copy2(intact, file)
    job.run()
    assert KIND.records(tmp_path / "output") == expected(), "put back it is as if nothing had happened"


def test_no_changed_byte_of_a_manifest_goes_unnoticed(job: SmallJob) -> None:
    content = newest_manifest(job).read_bytes()
    Manifest.from_bytes(content, "intact")
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        with pytest.raises(CheckpointError, match=r"the-manifest\.json"):
            Manifest.from_bytes(bytes(changed), "the-manifest.json")


def test_an_older_checkpoint_is_not_taken_for_the_newest(tmp_path: Path) -> None:
    """With several retained there would be one to go on from, whose later epochs are published already."""
    job = SmallJob(tmp_path, WatchedSink(KIND.make(tmp_path / "output")))
    job.run(stop_after=STOPPED_AT)
    lost = newest_manifest(job)
    lost.unlink()
    assert newest_manifest(job).exists()
    with pytest.raises(CheckpointError, match=lost.name):
        job.run()


def test_what_a_killed_driver_left_half_written_is_removed(job: SmallJob, tmp_path: Path) -> None:
    newest = newest_manifest(job)
    half_written = [
        newest.with_name(f".{newest.name}.{'0123456789abcdef' * 2}.tmp"),
        job.folder / "checkpoints" / "state" / f".1-0-1-0-00ff.state.{'0123456789abcdef' * 2}.tmp",
    ]
    for path in half_written:
        path.write_bytes(b"half")
    job.run()
    assert not [path for path in half_written if path.exists()]
    assert KIND.records(tmp_path / "output") == expected()
