"""Whatever is damaged or missing of a savepoint or a checkpoint is told before anybody starts from it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.common.errors import StateCorruptedError
from headrace.savepoint.metadata import METADATA, read_metadata
from headrace.state_processor import SavepointReader
from headrace.storage.folder import posix_folder
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

KINDS = ["canonical", "native", "job"]


@pytest.fixture(scope="module", params=["hashmap", "rocksdb"])
def taken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of each format, and the checkpoint directory of their job."""
    place = Place(tmp_path_factory.mktemp("taken"))
    place.write("a", {key: key for key in range(20)})
    client = start(place, "job", 2, settings={"state.backend.type": request.param})
    wait_for_records(client, 20)
    native = client.trigger_savepoint(format_type="native").result(DEADLINE)
    canonical = client.stop_with_savepoint(False).result(DEADLINE)
    Path(native).rename(place.root / "native")
    Path(canonical).rename(place.root / "canonical")
    return place.root


def files_of(root: Path, kind: str) -> list[Path]:
    """All that a savepoint or the state of the newest checkpoint consists of, but for what says so."""
    reader = SavepointReader.read(root / kind)
    own = [path for path in sorted((root / kind).rglob("*")) if path.is_file() and path.name != METADATA]
    if kind == "canonical":
        return own
    state = [root / "job" / "state" / name for name in sorted(set(reader.manifest.state_files()))]
    return [*(own if kind == "native" else ()), *state]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_whole(taken: Path, kind: str) -> None:
    found = SavepointReader.read(taken / kind).verify()
    files = files_of(taken, kind)
    assert (found.job_name, found.files) == ("totals", len(files))
    assert found.size == sum(path.stat().st_size for path in files) > 0


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "its first byte": lambda path: flip(path, 0),
    "its last byte": lambda path: flip(path, 1),
    "in the midst": lambda path: flip(path, 0.5),
    "nearly at the end": lambda path: flip(path, 0.8),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged(taken: Path, kind: str, damage: str) -> None:
    for path in files_of(taken, kind):
        content = path.read_bytes()
        DAMAGES[damage](path)
        try:
            with pytest.raises(StateCorruptedError, match=f"(?s)is not whole:.*{path.name}"):
                SavepointReader.read(taken / kind).verify()
        finally:
            path.write_bytes(content)


def test_all_damage_is_told_at_once(taken: Path, tmp_path: Path) -> None:
    shutil.copytree(taken / "canonical", tmp_path / "copy")
    tables = read_metadata(posix_folder(tmp_path / "copy")).tables
    for number, table in enumerate(tables):
        DAMAGES[["missing", "cut"][number % 2]](tmp_path / "copy" / table.path)
    with pytest.raises(StateCorruptedError) as told:
        SavepointReader.read(tmp_path / "copy").verify()
    assert all(table.path in str(told.value) for table in tables)


def test_from_a_shell(taken: Path, tmp_path: Path) -> None:
    def verify(place: Path) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["state", "verify", str(place)], env={"COLUMNS": "200"})
        return done.exit_code, " ".join(done.output.split())

    code, shown = verify(taken / "native")
    assert code == 0
    assert shown.endswith("all is there as it was written")
    shutil.copytree(taken / "canonical", tmp_path / "copy")
    file = tmp_path / "copy" / read_metadata(posix_folder(tmp_path / "copy")).tables[0].path
    file.unlink()
    code, shown = verify(tmp_path / "copy")
    assert code == 1
    assert f"{file} is missing; put it back" in shown
