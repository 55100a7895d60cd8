"""Damage to any file of a savepoint is no matter, or an error that names the file, before anything is shown."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.checkpoint.directory import PINS
from headrace.savepoint.metadata import METADATA, read_metadata
from headrace.storage.locations import open_storage
from tests.reliability.support.damage_table import DAMAGES, EXACT, NOT_THERE, SAVEPOINTS
from tests.reliability.support.damages import CASES, MINE, Scene, belongings, content
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

FROM = "execution.state-recovery.path"
DIGEST = "0123456789abcdef"
ROUNDS = 3


@dataclass(frozen=True)
class Taken:
    """A job that took savepoints of each format as its input grew, and has ended with more of it.

    Attributes:
        place: where everything is.
        canonical: where they are, the newest first.
        native: likewise.
    """

    place: Place
    canonical: list[Path]
    native: list[Path]

    def files(self, kind: str) -> list[Path]:
        """The files of a kind in all savepoints; those of the newest first, and what it needs most before others."""
        return [path for savepoint in self._savepoints(kind) for path in FILES[kind](self, savepoint)]

    def savepoint(self, kind: str) -> Path:
        """That which is started from."""
        return self._savepoints(kind)[0]

    def _savepoints(self, kind: str) -> list[Path]:
        return self.native if "native" in kind or kind == "pin" else self.canonical


def _state_files(taken: Taken, savepoint: Path) -> list[Path]:
    metadata = read_metadata(open_storage(str(savepoint)))
    versions = [part.version for stage in metadata.checkpoint.stages for part in stage.partitions]
    return [taken.place.root / "job" / "state" / version.name for version in versions if version is not None]


FILES: dict[str, Callable[[Taken, Path], list[Path]]] = {
    "savepoint": lambda taken, savepoint: [savepoint / METADATA],
    "table of a savepoint": lambda taken, savepoint: sorted(savepoint.glob("operators/totals/state-total/*")),
    "source log of a savepoint": lambda taken, savepoint: [*savepoint.glob("sources/*/*.log")],
    "native savepoint": lambda taken, savepoint: [savepoint / METADATA],
    "source log of a native savepoint": lambda taken, savepoint: [*savepoint.glob("sources/*/*.log")],
    "state file of a native savepoint": _state_files,
    "pin": lambda taken, savepoint: [taken.place.root / "job" / PINS / savepoint.name],
}

NAMESAKES = {
    "savepoint": f".{METADATA}.{DIGEST * 2}.tmp",
    "table of a savepoint": "part-9-9.parquet",
    "source log of a savepoint": "files-00000099.log",
    "native savepoint": f".{METADATA}.{DIGEST * 2}.tmp",
    "source log of a native savepoint": "files-00000099.log",
    "state file of a native savepoint": f"1-0-1-0-{DIGEST}.state",
    "pin": "savepoint-000000-000000000000",
}

SOURCE_LOGS = "source log of a savepoint", "source log of a native savepoint"

SHARE = 4
"""Whenever tests run, every fourth damage is done to each kind of file, another fourth to the next kind."""

CELLS = [
    pytest.param(kind, case, outcome, marks=[pytest.mark.slow] if (kind_number + case_number) % SHARE else [])
    for kind_number, (kind, outcomes) in enumerate(SAVEPOINTS.items())
    for case_number, (case, (damage, _)) in enumerate(CASES.items())
    if (outcome := outcomes[DAMAGES.index(damage)]) != NOT_THERE
]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    place = Place(tmp_path_factory.mktemp("savepoints"))
    canonical, native = [], []
    client = start(place, "job", 2, settings={"execution.checkpointing.num-retained": "1"})
    for number in range(ROUNDS):
        place.write(f"{number}", {key: key + number for key in range(20)})
        wait_for_records(client, 20 * (number + 1))
        canonical.insert(0, Path(client.trigger_savepoint().result(DEADLINE)))
        native.insert(0, Path(client.trigger_savepoint(format_type="native").result(DEADLINE)))
    client.stop().result(DEADLINE)
    shutil.copytree(place.root, place.root.with_name("backup"), copy_function=shutil.copy2)
    return Taken(place, canonical, native)


@pytest.fixture
def taken(intact: Taken) -> Iterator[Taken]:
    """What a test may damage: savepoints know where the checkpoint directory is, so it stays in its place."""
    root = intact.place.root
    yield intact
    shutil.rmtree(root)
    shutil.copytree(root.with_name("backup"), root, copy_function=shutil.copy2)


def failure(place: Place, name: str, settings: dict[str, str]) -> BaseException | None:
    """Run a job to its end; gives what it fails with."""
    return start(place, name, 3, ends=True, settings=settings).get_job_execution_result().exception(DEADLINE)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "case", "outcome"), CELLS)
def test_damage(kind: str, case: str, outcome: str, taken: Taken) -> None:
    files = taken.files(kind)
    scene = Scene(files, files[-1], files[0].with_name(NAMESAKES[kind]))
    may_be_named = {path.name for path in [*files, scene.namesake]}
    if kind == "pin":  # what it keeps may be gone
        may_be_named |= {path.name for path in taken.files("state file of a native savepoint")}
    if "log" not in kind:  # that of another savepoint does not fit what is here
        may_be_named |= {path.name for path in taken.files(SOURCE_LOGS[kind.startswith("native")])}
    if kind == "savepoint":
        may_be_named |= {path.name for path in taken.files("table of a savepoint")}
    CASES[case][1](scene)
    mine = belongings(taken.place.root)
    error = None
    if kind == "pin":  # the job that has the directory looks at it
        taken.place.write("more", dict.fromkeys(range(20), 1))
        error = failure(taken.place, "job", {})
    if error is None:
        error = failure(taken.place, "again", {FROM: str(taken.savepoint(kind))})
    found = EXACT if error is None else type(error).__name__
    assert found.replace("Missing", "") in outcome.split(" or "), error
    shown = [line for line in taken.place.lines("out-again") if "ends" in line]
    if error is None:
        totals = {key: ROUNDS * key + sum(range(ROUNDS)) for key in range(20)}
        assert sorted(shown) == sorted(f"k{key} ends with {total} at {10_000 + key}" for key, total in totals.items())
    else:
        assert any(name in str(error) for name in may_be_named), error
        assert shown == []
    assert all(content(path) == MINE.encode() for path in mine), "what others have put there is not ours to remove"


def test_every_cell_is_tried() -> None:
    assert {damage for damage, _ in CASES.values()} == set(DAMAGES)
    assert all(len(outcomes) == len(DAMAGES) for outcomes in SAVEPOINTS.values())
