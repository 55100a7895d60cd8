"""Damage to any file of a job is no matter, or an error that names the file; the answer is never silently wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import headrace.jobmanager.compaction
import headrace.state.compaction
import headrace.state.runs.merging
from headrace.checkpoint.manifest import Manifest
from headrace.common.errors import CheckpointError, HeadraceError
from tests.reliability.support.damage import CRASHED_AT, FILES, SINKS, STOPPED_AT, Job, Kinds, expected, write_input
from tests.reliability.support.damage_table import DAMAGES, EXACT, LEFT, NOT_THERE, TABLE
from tests.reliability.support.damages import CASES, MINE, Scene, belongings, content
from tests.reliability.support.storages import on_s3

DIGEST = "0123456789abcdef"

NAMESAKES = {
    "manifest": "000000000099.json",
    "older manifest": f".000000000003.json.{DIGEST * 2}.tmp",
    "note": f".newest.{DIGEST * 2}.tmp",
    "generation": "99",
    "state file": f"1-0-1-0-{DIGEST}.state",
    "older state file": f".1-0-1-0-{DIGEST}.state.{DIGEST * 2}.tmp",
    "compacted state file": f"compacted-0-1-0-{DIGEST}.state",
    "shared state file": f"shared-1-0-1-{DIGEST}-{DIGEST}.state",
    "source log": "files-00000099.log",
    "hidden part": f"0000000001-0-0-5-{DIGEST}.part",
    "waiting part": f"0000000001-0-0.{DIGEST * 2}.tmp",
    "part just shown": "part-01234567-0-000099-000099-0",
    "visible part": "part-01234567-0-000001-000001-0",
}


@pytest.fixture(scope="module", autouse=True)
def _compaction() -> Iterator[None]:
    """Runs are compacted after a few epochs, however small they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headrace.jobmanager.compaction, "EPOCHS_BETWEEN_LOOKS", 4)
        patch.setattr(headrace.state.compaction, "INLINE_ROWS", 0)
        patch.setattr(headrace.state.runs.merging, "INLINE_ROWS", 0)
        yield


@pytest.fixture(scope="module")
def storage() -> str:
    """Where checkpoints are, unless a test says something else."""
    return "posix"


@pytest.fixture(scope="module")
def stopped(
    request: pytest.FixtureRequest, storage: str, tmp_path_factory: pytest.TempPathFactory, _compaction: None
) -> Job:
    """A job that was stopped after some epochs."""
    folder = tmp_path_factory.mktemp("damage")
    write_input(folder / "input", range(FILES // 2))
    job = Job(folder / "stopped", folder / "input")
    if storage == "s3":
        job = replace(job, elsewhere=partial(on_s3, request.getfixturevalue("s3")))
    job.run_until(STOPPED_AT)
    return job


@pytest.fixture(scope="module")
def crashed(stopped: Job) -> Job:
    """The same job after it has gone on, and died between two commits."""
    write_input(stopped.input, range(FILES // 2, FILES))
    job = stopped.copy(stopped.folder.with_name("crashed"))
    job.crash_at(CRASHED_AT)
    return job


@pytest.fixture
def job(crashed: Job, tmp_path: Path) -> Job:
    """A job of one's own that is like that one."""
    return crashed.copy(tmp_path / "job")


FATAL_CASES = (
    "flipped-in-the-middle",
    "half",
    "twice",
    "swapped",
    "deleted",
    "old-copy-in-place",
    "old-copy-beside",
    "folder-in-place",
    "namesake",
)
"""A case of each damage; where it may end in an error, it is tried by itself."""

SHARE = 3
"""Whenever tests run, every third of them at each kind of file, another third at the next kind."""

CELLS = [
    (kind, case, outcome)
    for kind, outcomes in TABLE.items()
    for case, (damage, _) in CASES.items()
    if (outcome := outcomes[DAMAGES.index(damage)]) != NOT_THERE
]
"""Every kind and case, with what the table tells of them."""

HARMLESS = (EXACT, LEFT)


def marks_of(storage: str, kind: str, case: str, outcome: str) -> list[pytest.MarkDecorator]:
    """Cases that do no harm are tried together otherwise."""
    if storage == "s3" or case not in FATAL_CASES or outcome in HARMLESS:
        return [pytest.mark.slow]
    turn = FATAL_CASES.index(case) + list(TABLE).index(kind)
    return [pytest.mark.slow] if turn % SHARE else []


CELLS_BY_STORAGE = [
    pytest.param(storage, *cell, marks=marks_of(storage, *cell)) for storage in ("posix", "s3") for cell in CELLS
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("storage", "kind", "case", "outcome"), CELLS_BY_STORAGE, scope="module")
def test_damage(kind: str, case: str, outcome: str, stopped: Job, crashed: Job, job: Job) -> None:
    scene = scene_of(kind, Kinds(job).find(kind), old_copy(kind, stopped))
    CASES[case][1](scene)
    damaged, mine = content(scene.file), belongings(job.folder)
    error = failure_of(job)
    if error is None:
        found = LEFT if outcome == LEFT else EXACT
    else:
        found = type(error).__name__
        assert any(path.name in str(error) for path in scene.may_be_named), error
    assert found in outcome.split(" or ")
    assert all(content(path) == MINE.encode() for path in mine), "what others have put there is not ours to remove"
    if found == LEFT:
        assert content(scene.file) == damaged, "what is visible is not ours to change"
    if found != EXACT:
        put_back(scene, crashed, job)
    if error is not None:
        job.finish()
    check_output(job)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_damage_to_many_files_that_does_no_harm(case: str, stopped: Job, crashed: Job, job: Job) -> None:
    kinds = {kind: outcome for kind, a_case, outcome in CELLS if a_case == case and outcome in HARMLESS}
    scenes = {kind: scene_of(kind, Kinds(job).find(kind), old_copy(kind, stopped)) for kind in kinds}
    if case == "strangers":
        scenes = {str(scene.file.parent): scene for scene in scenes.values()}
    for scene in scenes.values():
        CASES[case][1](scene)
    left = [scenes[kind] for kind, outcome in kinds.items() if outcome == LEFT]
    damaged, mine = [content(scene.file) for scene in left], belongings(job.folder)
    job.finish()
    assert [content(scene.file) for scene in left] == damaged, "what is visible is not ours to change"
    assert all(content(path) == MINE.encode() for path in mine), "what others have put there is not ours to remove"
    for scene in left:
        put_back(scene, crashed, job)
    check_output(job)


def put_back(scene: Scene, crashed: Job, job: Job) -> None:
    """Restore what was damaged."""
    scene.put_back(lambda file: crashed.folder / file.relative_to(job.folder))


def check_output(job: Job) -> None:
    """Every sink shows what it has to."""
    for sink in SINKS:
        assert job.shown(sink) == expected(), f"{sink} is wrong"


def failure_of(job: Job) -> HeadraceError | None:
    """Run a job to its end; gives what it fails with."""
    try:
        job.finish()
    except HeadraceError as error:
        return error
    return None


def test_every_cell_is_tried() -> None:
    assert {damage for damage, _ in CASES.values()} == set(DAMAGES)
    assert all(len(outcomes) == len(DAMAGES) for outcomes in TABLE.values())


def old_copy(kind: str, stopped: Job) -> Path:
    """A file of a kind as it was some epochs ago."""
    elsewhere = {"hidden part": "waiting part", "part just shown": "visible part"}  # none was under way then
    return Kinds(stopped).find(elsewhere.get(kind, kind))[0]


def scene_of(kind: str, files: list[Path], old: Path) -> Scene:
    return Scene(files, old, files[0].with_name(NAMESAKES[kind]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", ["namesake", "strangers"])
def test_the_folders_of_committers(case: str, crashed: Job, job: Job) -> None:
    """What lies in them is ours only if it has such a name."""
    (publishing,) = (job.folder / "rolled").glob(".headrace-*/publish-1")
    scene = scene_of("hidden part", [publishing / "nothing"], publishing)
    CASES[case][1](scene)
    mine = [path.name for path in publishing.rglob("*") if path.is_file()]
    (publishing / (DIGEST * 2)).write_text("put together")
    job.finish()
    left = {path.name: path.read_text() for path in (job.folder / "rolled").rglob(".headrace-*/**/*") if path.is_file()}
    assert left == dict.fromkeys(mine, MINE)


def test_no_changed_byte_of_a_manifest_goes_unnoticed(crashed: Job) -> None:
    (file, *_) = Kinds(crashed).find("manifest")
    content = file.read_bytes()
    Manifest.from_bytes(content, "intact")
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        with pytest.raises(CheckpointError, match=r"the-manifest\.json"):
            Manifest.from_bytes(bytes(changed), "the-manifest.json")


def test_what_a_killed_driver_left_half_written_is_removed(job: Job) -> None:
    newest = Kinds(job).find("manifest")[0]
    half_written = [
        newest.with_name(f".{newest.name}.{DIGEST * 2}.tmp"),
        newest.with_name(f".newest.{DIGEST * 2}.tmp"),
        job.folder / "checkpoints" / "state" / f".1-0-1-0-{DIGEST}.state.{DIGEST * 2}.tmp",
    ]
    for path in half_written:
        path.write_bytes(b"half")
    job.finish()
    assert not [path for path in half_written if path.exists()]
