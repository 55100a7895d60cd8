"""Savepoints whose files are missing, damaged or others; native ones; those that are claimed and disposed of."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.directory import Pin
from headrace.checkpoint.store import CheckpointStore
from headrace.common import JobStatus
from headrace.common.errors import CheckpointStorageError, ConfigurationError, SavepointError, StateMigrationError
from headrace.jobmanager import savepoints
from headrace.jobmanager.epochs import JobExecution
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import DISPOSED, METADATA, SavepointMetadata, read_metadata
from headrace.storage.folder import Folder, posix_folder
from headrace.storage.locations import open_storage
from tests.checkpoint.manifests import manifest
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

AMOUNTS = {key: key for key in range(20)}
ENDS = sorted(f"k{key} ends with {key} at {10_000 + key}" for key in range(20))
FROM = "execution.state-recovery.path"


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A job that has stopped with a savepoint of each format: ``canonical`` and ``native``."""
    place = Place(tmp_path_factory.mktemp("taken"))
    place.write("a", AMOUNTS)
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    native = client.trigger_savepoint(format_type="native").result(DEADLINE)
    canonical = client.stop_with_savepoint(False).result(DEADLINE)
    (place.root / "native").symlink_to(native)
    (place.root / "canonical").symlink_to(canonical)
    return place


@pytest.fixture
def place(taken: Place, tmp_path: Path) -> Place:
    """A copy of it that a test may damage."""
    shutil.copytree(taken.root / "in", tmp_path / "in")
    shutil.copytree(taken.root / "canonical", tmp_path / "canonical")
    return Place(tmp_path)


def test_a_savepoint_is_no_checkpoint_directory(place: Place) -> None:
    before = sorted(place.root.joinpath("canonical").rglob("*"))
    for settings in ({}, {FROM: str(place.root / "canonical")}):
        with pytest.raises(CheckpointStorageError, match=r"canonical is a savepoint, no checkpoint directory.* -s"):
            start(place, "canonical", 1, settings=settings)
    assert sorted(place.root.joinpath("canonical").rglob("*")) == before


def ends(place: Place, savepoint: Path, settings: dict[str, str] | None = None, name: str = "again") -> list[str]:
    """What a job shows at its end that starts from a savepoint."""
    client = start(place, name, 3, ends=True, settings={FROM: str(savepoint)} | (settings or {}))
    client.get_job_execution_result().result(DEADLINE)
    return sorted(place.lines(f"out-{name}"))


def failure(place: Place, savepoint: Path, settings: dict[str, str] | None = None) -> BaseException:
    client = start(place, "failing", 1, ends=True, settings={FROM: str(savepoint)} | (settings or {}))
    error = client.get_job_execution_result().exception(DEADLINE)
    assert error is not None
    assert place.lines("out-failing") == []
    return error


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES: dict[str, Callable[[Path], None]] = {"flipped": flip, "cut": cut, "missing": Path.unlink}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
@pytest.mark.parametrize("file", ["operators/totals/state-total/*.parquet", "sources/*/*.log", METADATA])
def test_damage_is_told_with_the_file(place: Place, damage: str, file: str) -> None:
    path = next((place.root / "canonical").glob(file))
    DAMAGES[damage](path)
    error = failure(place, place.root / "canonical")
    assert isinstance(error, SavepointError)
    assert path.name in str(error)


def test_swapped_files_are_noticed(place: Place) -> None:
    one, two = sorted((place.root / "canonical/operators/totals/state-total").glob("*.parquet"))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    error = failure(place, place.root / "canonical")
    assert isinstance(error, SavepointError)
    assert "state-total/part-" in str(error)


def test_a_savepoint_of_a_newer_format_is_refused(place: Place) -> None:
    path = place.root / "canonical" / METADATA
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    assert "reads version 1" in str(failure(place, place.root / "canonical"))


def test_what_is_no_savepoint_is_refused(place: Place) -> None:
    (place.root / "several").mkdir()
    names = [f"savepoint-4f1c2a-9b0e6d1f3a5{number}" for number in range(7)]
    for name in names:
        shutil.copytree(place.root / "canonical", place.root / "several" / name)
    expected = {
        "in": "is no savepoint: there is no _metadata.json in it",
        "nowhere": "is no savepoint: there is nothing at that place",
        "in/a": "is no savepoint: it is a file; name the directory that the savepoint has",
        "several": f"it is a folder of savepoints; name one of them: {', '.join(names[:5])} and 2 more",
    }
    for where, message in expected.items():
        assert message in str(failure(place, place.root / where))


def test_a_location_that_is_none_is_told_with_its_option(place: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"execution.state-recovery.path \(-s\): .*'ftp://host/savepoint'"):
        start(place, "other", 1, settings={FROM: "ftp://host/savepoint"})


def test_it_can_be_moved_and_used_twice_under_another_max_parallelism(place: Place) -> None:
    moved = place.root / "elsewhere" / "moved"
    moved.parent.mkdir()
    (place.root / "canonical").rename(moved)
    assert ends(place, moved, {"pipeline.max-parallelism": "7"}, "seven") == ENDS
    assert ends(place, moved / METADATA, {"execution.checkpointing.data-inline-threshold": "1 mb"}) == ENDS


def test_a_job_with_a_checkpoint_goes_on_from_that(place: Place) -> None:
    assert ends(place, place.root / "canonical") == ENDS
    shutil.rmtree(place.root / "canonical")
    assert ends(place, place.root / "canonical") == ENDS, "it had finished, and shows nothing once more"


def test_what_is_claimed_goes(place: Place) -> None:
    assert ends(place, place.root / "canonical", {"execution.state-recovery.claim-mode": "CLAIM"}) == ENDS
    assert not (place.root / "canonical").exists()


SHARED = ("1-0-1-0-aa.state",)
PIN = "savepoint-one"


def native_savepoint(root: Path, name: str, pin: str = PIN, job: str = "job") -> Path:
    """A savepoint of a job that may be somewhere else, and what keeps its files."""
    folder = root / name
    CheckpointStore(posix_folder(root / job)).pin(pin, Pin(str(folder), SHARED, lasts=True))
    metadata = SavepointMetadata(manifest(1, *SHARED), "native", directory=str(root / job), pin=pin)
    posix_folder(folder).make()
    posix_folder(folder).create(METADATA, metadata.to_bytes())
    return folder


def pins(root: Path, job: str = "job") -> list[str]:
    return [path.name for path in (root / job / "pins").iterdir()]


def test_disposing_of_a_copy_leaves_what_the_original_needs(tmp_path: Path) -> None:
    original = native_savepoint(tmp_path, "original")
    shutil.copytree(original, tmp_path / "copy")
    kept = dispose(open_storage(str(tmp_path / "copy")), open_storage)
    assert kept == f"the state files that it refers to stay: the savepoint {original} needs them"
    assert not (tmp_path / "copy").exists()
    assert pins(tmp_path) == [PIN]
    assert dispose(open_storage(str(original)), open_storage) == ""
    assert pins(tmp_path) == []


def test_where_a_savepoint_was_moved_from_its_place_nobody_knows_the_original_and_its_files_stay(
    tmp_path: Path,
) -> None:
    original = native_savepoint(tmp_path, "original")
    moved = original.rename(tmp_path / "moved")
    shutil.copytree(moved, tmp_path / "copy")
    for folder in (tmp_path / "copy", moved):
        kept = dispose(open_storage(str(folder)), open_storage)
        assert f"{tmp_path / 'job' / 'pins' / PIN} keeps them for the savepoint {original}, which is not there" in kept
        assert not folder.exists()
        assert pins(tmp_path) == [PIN]


@pytest.mark.parametrize("spelling", ["{}/", "link", "file://{}", "{}/../original", "interrupted"])
def test_however_the_place_is_spelled_it_is_that_of_the_pin(tmp_path: Path, spelling: str) -> None:
    original = native_savepoint(tmp_path, "original")
    (tmp_path / "link").symlink_to(original)
    if spelling == "interrupted":
        (original / METADATA).rename(original / DISPOSED)
    place = str(tmp_path / "link") if spelling == "link" else spelling.format(original)
    assert dispose(open_storage(str(original) if spelling == "interrupted" else place), open_storage) == ""
    assert pins(tmp_path) == []


@pytest.mark.parametrize("name", [PIN, f"../pins/{PIN}", "../manifests/000000000001.json"])
def test_metadata_that_names_what_is_of_another_job_removes_nothing_of_it(tmp_path: Path, name: str) -> None:
    other = native_savepoint(tmp_path, "other", job="other-job")
    store = CheckpointStore(posix_folder(tmp_path / "other-job"))
    store.write(manifest(1, *SHARED))
    before = sorted(tmp_path.joinpath("other-job").rglob("*"))
    strange = SavepointMetadata(manifest(1), "native", directory=str(tmp_path / "other-job"), pin=name)
    posix_folder(tmp_path / "strange").make()
    (tmp_path / "strange" / METADATA).write_bytes(strange.to_bytes())
    dispose(open_storage(str(tmp_path / "strange")), open_storage)
    assert sorted(tmp_path.joinpath("other-job").rglob("*")) == before
    assert read_metadata(posix_folder(other)).pin == PIN


@pytest.mark.parametrize("claims", ["CLAIM", "NO_CLAIM"])
def test_a_job_that_claims_a_copy_leaves_what_the_original_needs(taken: Place, tmp_path: Path, claims: str) -> None:
    shutil.copytree(taken.root / "in", tmp_path / "in")
    shutil.copytree(taken.root / "native", tmp_path / "copy")
    before = pins(taken.root)
    settings = {"execution.state-recovery.claim-mode": claims}
    assert ends(Place(tmp_path), tmp_path / "copy", settings) == ENDS
    assert (tmp_path / "copy").exists() is (claims == "NO_CLAIM")
    assert pins(taken.root) == before
    assert (taken.root / "native" / METADATA).exists()


def test_a_native_savepoint_keeps_its_files_until_it_is_disposed_of(taken: Place, tmp_path: Path) -> None:
    native = open_storage(str((taken.root / "native").resolve()))
    files = [taken.root / "job" / "state" / name for name in read_metadata(native).checkpoint.state_files()]
    assert files
    assert all(file.exists() for file in files)
    shutil.copytree(taken.root / "in", tmp_path / "in")
    assert ends(Place(tmp_path), taken.root / "native") == ENDS
    dispose(native, open_storage)
    assert not (taken.root / "native").exists()
    assert list((taken.root / "job" / "pins").iterdir()) == []


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_native_savepoint_that_is_not_where_it_was_is_told_with_what_keeps_its_files(
    is_removed: bool, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    client = start(place, "job", 1)
    wait_for_records(client, 20)
    native = Path(client.trigger_savepoint(format_type="native").result(DEADLINE))
    client.stop().result(DEADLINE)
    if is_removed:
        shutil.rmtree(native)
    start(place, "job", 1, ends=True).get_job_execution_result().result(DEADLINE)
    for thread in threading.enumerate():
        if thread.name == "headrace-native-savepoints":
            thread.join(DEADLINE)
    (pin,) = (place.root / "job" / "pins").iterdir()
    assert (f"the native savepoint {native} is not there" in caplog.text) is is_removed
    assert (f"remove {pin} too" in caplog.text) is is_removed


def test_a_job_does_not_wait_for_the_storage_of_a_native_savepoint(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start(place, "job", 1)
    wait_for_records(client, 20)
    client.trigger_savepoint(format_type="native").result(DEADLINE)
    client.stop().result(DEADLINE)
    answers, asked = threading.Event(), threading.Event()

    def silent(*_: object) -> bool:
        asked.set()
        return answers.wait(DEADLINE)

    monkeypatch.setattr(savepoints, "_is_native", silent)
    start(place, "job", 1, ends=True).get_job_execution_result().result(DEADLINE / 3)
    assert asked.wait(DEADLINE)
    answers.set()


def test_a_checkpoint_directory_will_do_if_all_is_published(place: Place, taken: Place) -> None:
    shutil.copytree(taken.root / "job", place.root / "job")
    assert ends(place, place.root / "job") == ENDS


def test_state_that_nobody_takes_is_refused(place: Place) -> None:
    env = {FROM: str(place.root / "canonical")}
    client = start(place, "other", 1, ends=True, settings=env, uid="renamed")
    error = client.get_job_execution_result().exception(DEADLINE)
    assert isinstance(error, StateMigrationError)
    assert "state of operators with uid totals" in str(error)
    settings = env | {"execution.state-recovery.ignore-unclaimed-state": "true"}
    client = start(place, "other", 1, ends=True, settings=settings, uid="renamed")
    client.get_job_execution_result().result(DEADLINE)
    assert place.lines("out-other") == [], "neither records that were read before, nor timers"


def test_a_drained_job_has_finished_and_so_has_who_starts_from_there(place: Place) -> None:
    client = start(place, "draining", 2)
    wait_for_records(client, 20)
    savepoint = client.stop_with_savepoint(True).result(DEADLINE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert [line for line in sorted(place.lines("out-draining")) if "ends" in line] == ENDS
    assert ends(place, Path(savepoint)) == []


def test_a_place_that_cannot_be_written_is_told_and_the_job_goes_on(place: Place) -> None:
    (place.root / "file").write_text("")
    client = start(place, "job", 1)
    wait_for_records(client, 20)
    with pytest.raises(SavepointError, match=r"no savepoint was taken in .*file"):
        client.stop_with_savepoint(False, str(place.root / "file")).result(DEADLINE)
    place.write("b", AMOUNTS)
    wait_for_records(client, 40)
    client.stop().result(DEADLINE)
    with pytest.raises(SavepointError, match="the job did not come to it"):
        client.trigger_savepoint().result(DEADLINE)


def test_a_job_that_was_to_end_with_a_savepoint_goes_on_without_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the files of the savepoint are written: nothing else may know what the job has come to."""

    def full(*_: object) -> Any:
        raise OSError(errno.ENOSPC, "the disk is full")

    client = start(place, "job", 1)
    wait_for_records(client, 20)
    with monkeypatch.context() as changed:
        changed.setattr(savepoints, "export_version", full)
        with pytest.raises(SavepointError, match=r"no savepoint was taken in .*the disk is full"):
            client.stop_with_savepoint(False).result(DEADLINE)
    place.write("b", AMOUNTS)
    wait_for_records(client, 40)
    assert read_metadata(open_storage(client.stop_with_savepoint(False).result(DEADLINE))) is not None


@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_one_that_came_into_being_with_an_error_is_none(
    kind: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk becomes read-only, for a moment, between the file that makes it one and what comes behind."""
    create = Folder.create

    def create_and_fail(folder: Folder, name: str, content: bytes) -> bool:
        created = create(folder, name, content)
        if name == METADATA:
            raise OSError(errno.EROFS, "it cannot be written any more")
        return created

    client = start(place, "job", 1)
    wait_for_records(client, 20)
    with monkeypatch.context() as changed:
        changed.setattr(Folder, "create", create_and_fail)
        with pytest.raises(SavepointError, match=r"no savepoint was taken in .*cannot be written any more"):
            client.trigger_savepoint(format_type=kind).result(DEADLINE)
    assert [path for path in (place.root / "savepoints").rglob("*") if path.is_file()] == []
    assert list((place.root / "job" / "pins").iterdir()) == []
    assert read_metadata(open_storage(client.stop_with_savepoint(False).result(DEADLINE))) is not None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("before", "after"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_under_another_backend(tmp_path: Path, before: str, after: str) -> None:
    place = Place(tmp_path)
    place.write("a", AMOUNTS)
    client = start(place, "job", 2, settings={"state.backend.type": before})
    wait_for_records(client, 20)
    native = client.trigger_savepoint(format_type="native").result(DEADLINE)
    canonical = client.stop_with_savepoint(False).result(DEADLINE)
    assert f"written by the state backend '{before}'" in str(
        failure(place, Path(native), {"state.backend.type": after})
    )
    assert ends(place, Path(canonical), {"state.backend.type": after}, "other") == ENDS
    assert ends(place, Path(native), {"state.backend.type": before}, "same") == ENDS


def test_a_job_that_is_cancelled_meanwhile_does_not_say_that_it_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start(place, "job", 1)
    wait_for_records(client, 20)
    write = JobExecution._write

    def write_when_cancelled(execution: JobExecution, *given: Any) -> None:
        client.cancel()
        write(execution, *given)

    monkeypatch.setattr(JobExecution, "_write", write_when_cancelled)
    with pytest.raises(SavepointError, match=r"no savepoint was taken in .*was not written\. The job has ended"):
        client.trigger_savepoint().result(DEADLINE)
