"""Savepoints that no job has taken: of new state, and after the model of others; jobs go on from them."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from headrace.common import Types
from headrace.common.errors import HeadraceError, SavepointError
from headrace.datastream.state import ValueStateDescriptor
from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter, StateTables, compare
from headrace.storage.folder import Folder
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

TOTAL = ValueStateDescriptor("total", Types.LONG())
BACKENDS = ["hashmap", "rocksdb"]


def totals(amounts: dict[str, int]) -> StateTables:
    table = pa.table({"key": [*amounts], "value": [*amounts.values()]})
    timers = pa.table({"key": [*amounts], "time": [20_000 + number for number, _ in enumerate(amounts)]})
    return OperatorTransformation.from_tables(Types.STRING()).with_state(TOTAL, table).with_timers(timers)


def goes_on(place: Place, savepoint: str, records: int, parallelism: int = 2, **settings: Any) -> dict[str, int]:
    """The job runs from a savepoint until it has read so many records: the last total of each key that it has seen."""
    uid = settings.pop("uid", "totals")
    more = {"execution.state-recovery.path": savepoint, **settings}
    client = start(place, "next", parallelism, settings=more, uid=uid)
    wait_for_records(client, records)
    client.stop(drain=True).result(DEADLINE)
    client.get_job_execution_result().result(DEADLINE)
    return place.totals("out-next")


def refuses(place: Place, savepoint: str, told: str) -> None:
    """The job does not begin with a savepoint."""
    client = start(place, "next", 2, settings={"execution.state-recovery.path": savepoint})
    with pytest.raises(HeadraceError, match=told):
        client.get_job_execution_result().result(DEADLINE)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def savepoint(place: Place) -> str:
    """Of the job that sums up, which has read k0 to k19."""
    place.write("a", {key: key for key in range(20)})
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    taken = client.trigger_savepoint().result(DEADLINE)
    client.stop().result(DEADLINE)
    return taken


def values_of(path: str, uid: str = "totals") -> dict[str, int]:
    rows = SavepointReader.read(path).read_keyed_state(uid, "total").to_pylist()
    return {row["key"]: row["value"] for row in rows}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_new_job_begins_with_tables(place: Place, parallelism: int, backend: str) -> None:
    before = {f"k{key}": 1000 * key for key in range(20)}
    path = SavepointWriter.new_savepoint(16).with_operator("totals", totals(before)).write(f"{place.root}/new")
    assert values_of(path) == before
    place.write("a", dict.fromkeys(range(10), 1))
    found = goes_on(place, path, 10, parallelism, **{"state.backend.type": backend})
    assert found == {f"k{key}": 1000 * key + 1 for key in range(10)}
    ends = {line.split()[0] for line in place.lines("out-next") if int(line.split()[-1]) >= 20_000}
    assert ends == before.keys(), "every timer that was given has fired"


def test_one_wrong_total_is_put_right(place: Place, savepoint: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(savepoint)
    table = writer.reader.read_keyed_state("totals", "total").to_pandas()
    table.loc[table.key == "k7", "value"] = 700
    repaired = writer.replace_table("totals", "state/total", table).write(f"{place.root}/repaired")
    changes = compare(SavepointReader.read(savepoint), SavepointReader.read(repaired))
    assert [str(change) for change in changes] == ["changed totals state/total key=k7: value=7 -> value=700"]
    place.write("b", {7: 1, 8: 1})
    assert goes_on(place, repaired, 22, 3) == {"k7": 701, "k8": 9}, "the position of the source is kept"


def test_another_uid(place: Place, savepoint: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(savepoint).change_operator_identifier("totals", "sums")
    path = writer.write(f"{place.root}/renamed")
    assert values_of(path, "sums") == values_of(savepoint)
    place.write("b", {7: 1})
    refuses(place, path, "operators with uid sums")
    assert goes_on(place, path, 21, uid="sums") == {"k7": 8}


def test_other_keys(place: Place, savepoint: str) -> None:
    """The keys are other ones, of the same type: their rows are where the job looks for them."""
    writer = SavepointWriter.from_existing_savepoint(savepoint)
    before = values_of(savepoint)
    moved = totals({f"k{int(key[1:]) + 100}": value for key, value in before.items()})
    path = writer.remove_operator("totals").with_operator("totals", moved).write(f"{place.root}/moved")
    place.write("b", {107: 1, 7: 1})
    assert goes_on(place, path, 22, 3) == {"k107": 8, "k7": 1}


def test_a_source_begins_anew(place: Place, savepoint: str) -> None:
    path = SavepointWriter.from_existing_savepoint(savepoint).remove_operator("lines").write(f"{place.root}/again")
    assert goes_on(place, path, 40) == {f"k{key}": 2 * key for key in range(20)}


def test_an_operator_without_state_begins_empty(place: Place, savepoint: str) -> None:
    path = SavepointWriter.from_existing_savepoint(savepoint).remove_operator("totals").write(f"{place.root}/empty")
    place.write("b", {7: 1})
    assert goes_on(place, path, 21) == {"k7": 1}


def test_the_original_is_not_touched(place: Place, savepoint: str) -> None:
    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in Path(savepoint).rglob("*") if path.is_file()}

    before = content()
    SavepointWriter.from_existing_savepoint(savepoint).remove_operator("totals").write(f"{place.root}/other")
    assert content() == before


def test_tables_of_other_libraries(place: Place) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = pd.DataFrame({"key": pd.Categorical(["k1", "k2"]), "value": [1, 2]})
    relation = duckdb.sql("select 'k' || i as key, i as value from range(1, 3) numbers(i)")
    for number, data in enumerate([frame, relation, {"value": [1, 2], "key": ["k1", "k2"]}]):
        given = OperatorTransformation.from_tables(str).with_state(TOTAL, data)
        path = SavepointWriter.new_savepoint().with_operator("totals", given).write(f"{place.root}/{number}")
        assert values_of(path) == {"k1": 1, "k2": 2}


def test_a_state_without_rows(place: Place, savepoint: str) -> None:
    """All keys of the operator begin anew, and its timers stay."""
    none = pa.table({"key": pa.array([], pa.string()), "value": pa.array([], pa.int64())})
    writer = SavepointWriter.from_existing_savepoint(savepoint).replace_table("totals", "state/total", none)
    path = writer.write(f"{place.root}/empty")
    assert [state.store for state in SavepointReader.read(path).states()] == ["timers/event"]
    place.write("b", {7: 1})
    assert goes_on(place, path, 21) == {"k7": 1}


def test_types_are_checked_against_the_program(place: Place) -> None:
    wrong = ValueStateDescriptor("total", Types.STRING())
    tables = OperatorTransformation.from_tables(Types.STRING()).with_state(wrong, {"key": ["k1"], "value": ["1"]})
    path = SavepointWriter.new_savepoint().with_operator("totals", tables).write(f"{place.root}/new")
    place.write("a", {1: 1})
    refuses(place, path, "value state 'total' was stored with another type")


# --- a place that others want as well, and what is left of failures --------------------------------------------------


def first() -> SavepointWriter:
    return SavepointWriter.new_savepoint().with_operator("totals", totals({"k1": 1, "k2": 2}))


def other() -> SavepointWriter:
    return SavepointWriter.new_savepoint().with_operator("totals", totals({"k1": 100}))


def test_while_one_writes_there_nobody_else_does(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files have the same names."""
    path, write = place.root / "both", SavepointWriter._write_given

    def met(writer: SavepointWriter, folder: Folder) -> Any:
        written = write(writer, folder)
        monkeypatch.undo()
        with pytest.raises(SavepointError, match=r"both holds '_in_progress': choose another place"):
            other().write(path)
        return written

    monkeypatch.setattr(SavepointWriter, "_write_given", met)
    reader = SavepointReader.read(first().write(path))
    assert reader.verify().files == 2
    assert values_of(str(path)) == {"k1": 1, "k2": 2}


@pytest.mark.parametrize(
    ("step", "told"),
    [("make", "both holds a savepoint already"), ("create", "somebody else is just writing a savepoint to")],
)
def test_who_is_overtaken_leaves_the_other_one_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str, told: str
) -> None:
    """Between the look at the place and the first file in it."""
    path, change = place.root / "both", getattr(Folder, step)

    def overtaken(folder: Folder, *arguments: Any) -> Any:
        if folder.path == str(path):
            monkeypatch.undo()
            if step == "make":
                first().write(path)
            else:
                folder.create("_in_progress", b"")
        return change(folder, *arguments)

    monkeypatch.setattr(Folder, step, overtaken)
    with pytest.raises(SavepointError, match=told):
        other().write(path)
    if step == "make":
        assert values_of(str(path)) == {"k1": 1, "k2": 2}
        assert SavepointReader.read(path).verify().files == 2
        assert not (path / "_in_progress").exists()


@pytest.mark.parametrize("fails", ["write", "create"])
def test_what_was_written_of_one_that_failed_is_removed(
    place: Place, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """The disk is full before its last file, or before what makes it a savepoint; then there is room again."""
    path, change, writer = place.root / "full", getattr(Folder, fails), first()

    def full(folder: Folder, name: str, *arguments: Any, **more: Any) -> Any:
        if name in ("part-1-0.parquet", "_metadata.json") and (
            fails == "create" or folder.path.endswith("/timers-event")
        ):
            raise OSError(errno.ENOSPC, "the disk is full")
        return change(folder, name, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, fails, full)
        with pytest.raises(OSError, match="the disk is full"):
            writer.write(path)
        assert not path.exists()
    assert values_of(writer.write(path)) == {"k1": 1, "k2": 2}
