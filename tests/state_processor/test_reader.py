"""Every kind of state of a job as a table, out of its checkpoint directory and out of savepoints."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.common import Types
from headrace.common.errors import (
    InvalidProgramError,
    InvalidTypeError,
    SavepointError,
    StateCorruptedError,
    StateMigrationError,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.state_processor import Difference, SavepointReader, SavepointWriter, compare
from headrace.testing import JobHarness
from tests.savepoint.jobs import DEADLINE, Place, fed, start, wait_for_records
from tests.state_processor.every_state import KEYS, LIST, MAP, REDUCING, UNTYPED, VALUE, job

TOTAL = ValueStateDescriptor("total", Types.LONG())


@pytest.fixture(scope="module")
def reader() -> Iterator[SavepointReader]:
    with JobHarness(job, parallelism=3) as harness:
        harness.push_all("rules", ["a", "bb"])
        for start_ in (0, 60):
            harness.push_all("numbers", range(start_, start_ + 60))
            harness.run_epoch()
        checkpoint = harness.checkpoint()
    yield SavepointReader.read(str(checkpoint.directory))
    assert checkpoint.directory.exists(), "it is there as long as somebody has the checkpoint"


def test_all_states_are_listed(reader: SavepointReader) -> None:
    known = {(state.uid, state.store): (state.kind, state.types, state.rows) for state in reader.states()}
    assert known["all", "state/value"] == ("value", "Long → Row(user: String, count: Long)", KEYS)
    assert known["all", "state/list"] == ("list", "Long → Long", 120)
    assert known["all", "state/map"] == ("map", "Long → String → Long", 120)
    assert known["all", "timers/event"] == ("timers", "Long", 120)
    assert known["held", "list/even"][2] == known["held", "union/union"][2] == 60
    assert known["ruled", "broadcast/rules"][2] == 2, "once, not once for each subtask"
    assert {uid for uid, _ in known} == set(reader.operators()) == {"all", "held", "ruled", "windows"}


def test_states_of_keys(reader: SavepointReader) -> None:
    values = reader.read_keyed_state("all", "value").sort_by("key").to_pylist()
    assert values == [{"key": key, "value": {"user": f"user {key}", "count": 110 + key}} for key in range(KEYS)]
    lists = reader.read_keyed_state("all", "list")
    found: dict[int, list[int]] = {}
    for row in lists.to_pylist():
        found.setdefault(row["key"], []).append(row["value"])
    assert found == {key: [*range(key, 120, KEYS)] for key in range(KEYS)}, "in the order of the elements"
    entries = {
        (row["key"], row["entry_key"], row["value"]) for row in reader.read_keyed_state("all", "map").to_pylist()
    }
    assert entries == {(number % KEYS, str(number), number) for number in range(120)}
    reduced = reader.read_keyed_state("all", "reducing").sort_by("key").column("value").to_pylist()
    assert reduced == [*range(110, 120)]
    means = reader.read_keyed_state("all", "mean").sort_by("key").column("value").to_pylist()
    assert [mean["f1"] for mean in means] == [12] * KEYS


def test_timers_by_time(reader: SavepointReader) -> None:
    timers = reader.read_timers("all")
    assert timers.column("time").to_pylist() == sorted([*range(1_000_000, 1_000_120)] * 2)
    assert set(timers.column("domain").to_pylist()) == {"event", "processing"}


def test_states_of_subtasks(reader: SavepointReader) -> None:
    assert sorted(reader.read_list_state("held", "even").column("value").to_pylist()) == [*range(1, 120, 2)]
    assert sorted(reader.read_union_state("held", "union").column("value").to_pylist()) == [*range(0, 120, 2)]
    rules = reader.read_broadcast_state("ruled", "rules")
    assert {row["entry_key"]: row["value"] for row in rules.to_pylist()} == {"a": 1, "bb": 2}


def test_states_of_windows(reader: SavepointReader) -> None:
    rows = reader.read_window_state("windows", "seen").to_pylist()
    sums = {(row["window_end"], row["key"]): row["value"] for row in rows}
    assert sums == {
        (end, key): sum(number for number in range(end - 50, end) if number % KEYS == key)
        for end in (50, 100)
        for key in range(KEYS)
    }


@pytest.mark.parametrize("key", [0, 7])
def test_the_state_of_one_key(reader: SavepointReader, key: int) -> None:
    assert reader.query("all", VALUE, key, Types.LONG()).count == 110 + key
    assert reader.query("all", LIST, key, Types.LONG()) == [*range(key, 120, KEYS)]
    assert reader.query("all", MAP, key, Types.LONG()) == {str(number): number for number in range(key, 120, KEYS)}
    assert reader.query("all", REDUCING, key, Types.LONG()) == 110 + key
    assert reader.query("all", UNTYPED, key, Types.LONG()) == {"number": 110 + key}


def test_a_key_without_state(reader: SavepointReader) -> None:
    assert reader.query("all", VALUE, 99, Types.LONG()) is None
    assert reader.query("all", LIST, 99, Types.LONG()) == []
    assert reader.query("all", MAP, 99, Types.LONG()) == {}


def test_a_query_of_a_state_that_nobody_stored_names_those_that_there_are(reader: SavepointReader) -> None:
    with pytest.raises(SavepointError, match=r"holds nothing under the name 'valu' of .*'all'.* are list, map, mean, "):
        reader.query("all", ValueStateDescriptor("valu", Types.LONG()), 1, Types.LONG())
    with pytest.raises(SavepointError, match=r"holds nothing under the name 'seen' of .*'windows'.* are none"):
        reader.query("windows", ValueStateDescriptor("seen", Types.LONG()), 1, Types.LONG())


@pytest.mark.slow
def test_what_is_stored_is_known_also_where_the_key_would_be_in_another_subtask(tmp_path: Path) -> None:
    """One subtask has the only key; others know nothing of the types."""
    place = Place(tmp_path)
    place.write("a", {0: 1})
    client = start(place, "job", 8)
    wait_for_records(client, 1)
    client.stop().result(DEADLINE)
    reader = SavepointReader.read(str(tmp_path / "job"))
    for key in range(6):
        assert reader.query("totals", TOTAL, f"k{key}", Types.STRING()) == (None if key else 1)
        with pytest.raises(StateMigrationError, match="stored with another key type"):
            reader.query("totals", TOTAL, key, Types.LONG())
        with pytest.raises(StateMigrationError, match="value state 'total' was stored with another type"):
            reader.query("totals", ValueStateDescriptor("total", Types.STRING()), f"k{key}", Types.STRING())


def test_a_query_by_the_name_of_a_state_asks_for_its_descriptor(reader: SavepointReader) -> None:
    with pytest.raises(InvalidProgramError, match=r"expected the descriptor of a state.* got 'value'"):
        reader.query("all", "value", 1, Types.LONG())  # type: ignore[arg-type]


def test_a_query_has_to_declare_what_is_stored(reader: SavepointReader) -> None:
    with pytest.raises(StateMigrationError, match=r"another key type.*; ask by the descriptor, and the type of keys"):
        reader.query("all", VALUE, "0", Types.STRING())
    with pytest.raises(StateMigrationError, match=r"'value' was stored with another type.*; ask by the descriptor"):
        reader.query("all", ValueStateDescriptor("value", Types.LONG()), 0, Types.LONG())


@pytest.mark.parametrize("session", [None, "local", object()])
def test_a_dataframe_takes_a_session(reader: SavepointReader, session: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"to_dataframe takes a SparkSession, not (None|'local'|an object)\n"):
        reader.to_dataframe(session, "all", "state/value")


@pytest.mark.parametrize(
    ("uid", "name", "told"),
    [("all", "valu", "did you mean all state/value"), ("alle", "value", "did you mean all state/value")],
)
def test_what_is_not_there_is_told(reader: SavepointReader, uid: str, name: str, told: str) -> None:
    with pytest.raises(SavepointError, match=told):
        reader.read_keyed_state(uid, name)


def test_a_place_without_a_job(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(SavepointError, match="is neither a savepoint nor a checkpoint directory"):
            SavepointReader.read(str(place))
    file = tmp_path / "program.py"
    file.touch()
    with pytest.raises(SavepointError, match=r"program\.py is neither a savepoint nor"):
        SavepointReader.read(file)


def test_what_is_no_place_and_no_reader_is_told(reader: SavepointReader, tmp_path: Path) -> None:
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: SavepointReader.read(None), "SavepointReader.read takes a str, not None"),  # type: ignore[arg-type]
        (lambda: SavepointReader("/data"), r"a path is read by SavepointReader.read\('/data'\)"),  # type: ignore[arg-type]
        (lambda: compare("/data", reader), r"takes two readers: SavepointReader.read\('/data'\)"),  # type: ignore[arg-type]
        (lambda: compare(reader, tmp_path), "takes two readers"),  # type: ignore[arg-type]
    ]
    for mistake, told in mistakes:
        with pytest.raises(InvalidTypeError, match=told):
            mistake()
    with pytest.raises(InvalidProgramError, match="the path is empty"):
        SavepointReader.read(" ")


def test_that_no_timers_are_pending_is_no_error(reader: SavepointReader) -> None:
    timers = reader.read_timers("ruled")
    assert timers.num_rows == 0
    assert timers.column_names == ["domain", "time", "key"]
    with pytest.raises(SavepointError, match="'nobody': operators with state are all, held, ruled, windows"):
        reader.read_timers("nobody")


# --- savepoints, and jobs that run ----------------------------------------------------------------------------------


def test_savepoints_are_read_as_checkpoints_are(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a", {key: key for key in range(20)})
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    canonical = SavepointReader.read(client.trigger_savepoint().result(DEADLINE))
    native = SavepointReader.read(client.trigger_savepoint(None, "native").result(DEADLINE))
    client.stop().result(DEADLINE)
    checkpoint = SavepointReader.read(str(tmp_path / "job"))
    for reader in (canonical, native):
        assert list(compare(reader, checkpoint)) == []
        totals = reader.read_keyed_state("totals", "total").to_pylist()
        assert {row["key"]: row["value"] for row in totals} == {f"k{key}": key for key in range(20)}
    assert native.query("totals", TOTAL, "k7", Types.STRING()) == 7
    with pytest.raises(SavepointError, match="canonical savepoint: it is read as a whole"):
        canonical.query("totals", TOTAL, "k7", Types.STRING())


def test_what_a_job_has_changed_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("a", {1: 1, 2: 2})
    client = start(place, "job", 2)
    wait_for_records(client, 2)
    before = SavepointReader.read(client.trigger_savepoint().result(DEADLINE))
    place.write("b", {2: 10, 3: 3})
    wait_for_records(client, 4)
    client.stop().result(DEADLINE)
    after = SavepointReader.read(str(tmp_path / "job"))
    found = {str(difference) for difference in compare(before, after)}
    assert found == {
        "changed totals state/total key=k2: value=2 -> value=12",
        "added totals state/total key=k3: value=3",
        "added totals timers/event time=10003, key=k3: there",
    }
    back = [difference.change for difference in compare(after, before)]
    assert sorted(back) == ["changed", "removed", "removed"]
    assert isinstance(next(compare(after, before)), Difference)


@pytest.mark.slow
def test_a_job_that_runs_is_read_all_the_while(tmp_path: Path) -> None:
    """Its checkpoints are replaced meanwhile, and files of state removed that the newest one does not need."""
    place = Place(tmp_path)
    place.write("a", {0: 1})
    client = start(place, "job", 2)
    wait_for_records(client, 1)
    seen = []
    with fed(place, client):
        while len(seen) < 8 or seen[-1] == seen[0]:
            reader = SavepointReader.read(str(tmp_path / "job"))
            seen.append(reader.query("totals", TOTAL, "k0", Types.STRING()))
            table = reader.read_keyed_state("totals", "total")
            assert dict(zip(*table.select(["key", "value"]).to_pydict().values(), strict=True))["k0"] >= seen[-1]
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def job_without_its_state(folder: Path) -> Path:
    """The checkpoint directory of a job that has stopped, whose state files somebody has removed."""
    place = Place(folder)
    place.write("a", {0: 1})
    client = start(place, "job", 1)
    wait_for_records(client, 1)
    client.stop().result(DEADLINE)
    for file in (folder / "job" / "state").iterdir():
        file.unlink()
    return folder / "job"


def test_a_missing_file_of_a_job_that_does_not_run_is_damage(tmp_path: Path) -> None:
    path = job_without_its_state(tmp_path)
    with pytest.raises(StateCorruptedError, match="missing"):
        SavepointReader.read(path).states()


# --- by the client of a job -------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_client_asks_for_a_key_of_its_job(tmp_path: Path, backend: str) -> None:
    """All the while, and when the job has ended."""
    place = Place(tmp_path)
    place.write("a", {0: 1, 7: 5})
    client = start(place, "job", 2, settings={"state.backend.type": backend})
    wait_for_records(client, 2)
    assert client.query_state("totals", TOTAL, "k7", Types.STRING()) == 5
    assert client.query_state("totals", TOTAL, "k8", Types.STRING()) is None
    seen = []
    for number in range(30):
        place.write(f"f{number}", {0: 1})
        wait_for_records(client, 3 + number)
        seen.append(client.query_state("totals", TOTAL, "k0", Types.STRING()))
    assert seen == [*range(2, 32)], "what has been counted has a checkpoint"
    with pytest.raises(SavepointError, match="no state of an operator with uid 'total'"):
        client.query_state("total", TOTAL, "k7", Types.STRING())
    with pytest.raises(StateMigrationError, match="stored with another key type"):
        client.query_state("totals", TOTAL, 7, Types.LONG())
    client.stop().result(DEADLINE)
    assert client.query_state("totals", TOTAL, "k0", Types.STRING()) == 31


def test_a_client_of_a_job_without_a_checkpoint_directory(tmp_path: Path) -> None:
    """Its state is there as long as the job."""
    place = Place(tmp_path)
    place.write("a", {0: 1, 7: 5})
    settings = {"execution.checkpointing.dir": None, "execution.checkpointing.data-inline-threshold": "0"}
    client = start(place, "job", 2, settings=settings)
    wait_for_records(client, 2)
    assert client.query_state("totals", TOTAL, "k7", Types.STRING()) == 5
    client.stop().result(DEADLINE)
    with pytest.raises(SavepointError, match=r"cannot be read: .*Without execution.checkpointing.dir it is kept until"):
        client.query_state("totals", TOTAL, "k7", Types.STRING())


def test_a_client_of_a_job_that_has_completed_no_epoch(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.input.mkdir(exist_ok=True)
    client = start(place, "job", 1)
    with pytest.raises(SavepointError, match="job 'totals' has completed no epoch yet: ask again later"):
        client.query_state("totals", TOTAL, "k7", Types.STRING())
    client.cancel().result(DEADLINE)


def test_a_damaged_checkpoint_is_no_model_for_a_savepoint(tmp_path: Path) -> None:
    """A file is missing, and no copies of others are left."""
    path = job_without_its_state(tmp_path)
    before = set(Path(tempfile.gettempdir()).glob("headrace-checkpoint-*"))
    with pytest.raises(StateCorruptedError, match="is missing; put it back"):
        SavepointWriter.from_existing_savepoint(path)
    assert set(Path(tempfile.gettempdir()).glob("headrace-checkpoint-*")) <= before
