"""Jobs whose operators, sources and sinks have other uids than in what they start from, or are others."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.errors import ConfigurationError, StateMigrationError
from headrace.jobmanager.metrics import MetricKey
from headrace.savepoint.metadata import METADATA
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

FROM = "execution.state-recovery.path"
MAP = "execution.state-recovery.uid-mapping"
AMOUNTS = {key: key for key in range(20)}
ENDS = sorted(f"k{key} ends with {key} at {10_000 + key}" for key in range(20))
BACKENDS = ["hashmap", "rocksdb"]
KINDS = ["canonical", "native", "job"]


@pytest.fixture(scope="module", params=BACKENDS)
def taken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, str]:
    """A stopped job with a savepoint of each format, and the backend that it ran with."""
    place = Place(tmp_path_factory.mktemp("taken"))
    place.write("a", AMOUNTS)
    client = start(place, "job", 2, settings={"state.backend.type": request.param})
    wait_for_records(client, 20)
    native = client.trigger_savepoint(format_type="native").result(DEADLINE)
    canonical = client.stop_with_savepoint(False).result(DEADLINE)
    Path(native).rename(place.root / "native")
    Path(canonical).rename(place.root / "canonical")
    return place, request.param


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Where jobs start that have read all there was where the savepoint was taken."""
    return Place(tmp_path)


def settings_of(taken: tuple[Place, str], kind: str, mapping: str) -> dict[str, str]:
    return {FROM: str(taken[0].root / kind), MAP: mapping, "state.backend.type": taken[1]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_state_timers_and_positions_move_along(taken: tuple[Place, str], place: Place, kind: str) -> None:
    settings = settings_of(taken, kind, "totals=sums; lines = words;out=shown")
    place.write("b", {3: 100})
    client = start(place, "new", 3, settings=settings, uid="sums", source="words", sink="shown")
    wait_for_records(client, 21)
    client.stop_with_savepoint(True).result(DEADLINE)
    moved = [line for line in ENDS if not line.startswith("k3 ")]
    assert sorted(place.lines("out-new")) == sorted([*moved, "k3 103", "k3 ends with 103 at 10003"])
    assert client._manager.metrics()[MetricKey("sums", None, "numRecordsIn")] == 21, "counters move along, too"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_renamed_job_goes_on_in_its_own_directory_by_the_same_command(
    taken: tuple[Place, str], place: Place, kind: str
) -> None:
    settings = settings_of(taken, kind, "totals=sums")
    client = start(place, "new", 1, settings=settings, uid="sums")
    client.stop().result(DEADLINE)
    client.get_job_execution_result().exception(DEADLINE)
    place.write("b", {3: 100})
    again = start(place, "new", 4, settings=settings, uid="sums")
    wait_for_records(again, 21)
    again.stop_with_savepoint(True).result(DEADLINE)
    assert "k3 ends with 103 at 10003" in place.lines("out-new")
    assert len(place.lines("out-new")) == 21


MISTAKES = {
    "total=sums": ["nothing is stored under the uid 'total', but under 'lines', 'out', 'totals'"],
    "totals=sum": ["the program has no operator with the uid 'sum'; it has "],
    "totals=sums;out=sums": ["'out' and 'totals' would both become 'sums'"],
    "totals=lines": ["something is stored under the uid 'lines' already"],
    "totals=out;out=total;x=y": ["no operator with the uid 'total'", "nothing is stored under the uid 'x'"],
}


@pytest.mark.sampled(15)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mapping", MISTAKES)
def test_a_mapping_that_does_not_fit_is_refused_with_all_that_is_wrong(
    taken: tuple[Place, str], place: Place, kind: str, mapping: str
) -> None:
    client = start(place, "new", 1, ends=True, settings=settings_of(taken, kind, mapping), uid="sums")
    error = client.get_job_execution_result().exception(DEADLINE)
    assert isinstance(error, StateMigrationError)
    for told in MISTAKES[mapping]:
        assert told in str(error)
    assert not (place.root / "out-new").exists()
    assert list((place.root / "new" / "manifests").iterdir()) == [], "nothing was written"


@pytest.mark.parametrize("kind", KINDS)
def test_operators_may_change_their_uids_but_each_has_to_be_of_that_kind(
    taken: tuple[Place, str], place: Place, kind: str
) -> None:
    settings = settings_of(taken, kind, "totals=lines;lines=totals")
    changed = start(place, "new", 1, ends=True, settings=settings, uid="lines", source="totals")
    changed.get_job_execution_result().result(DEADLINE)
    assert sorted(place.lines("out-new")) == ENDS

    client = start(place, "other", 1, ends=True, settings=settings)
    error = client.get_job_execution_result().exception(DEADLINE)
    assert isinstance(error, StateMigrationError)
    assert "keyed state of operators with uid lines" in str(error)
    assert "the position of sources with uid totals" in str(error)


def test_a_mapping_needs_something_to_start_from(place: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"or execution\.state-recovery\.path \(-s\) to a savepoint"):
        start(place, "new", 1, settings={MAP: "totals=sums"}).get_job_execution_result().result(DEADLINE)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_sources_are_added_and_removed(taken: tuple[Place, str], place: Place, kind: str) -> None:
    settings = settings_of(taken, kind, "")
    (place.root / "more").mkdir()
    (place.root / "more" / "b").write_text("k3,100\n")
    start(place, "two", 1, ends=True, settings=settings, also="more").get_job_execution_result().result(DEADLINE)
    assert "k3 103" in place.lines("out-two"), "one from where it was, the other from its beginning"
    assert len(place.lines("out-two")) == 21

    gone = start(place, "gone", 1, ends=True, settings=settings, source="anew")
    assert "the position of sources with uid lines" in str(gone.get_job_execution_result().exception(DEADLINE))
    settings |= {"execution.state-recovery.ignore-unclaimed-state": "true"}
    place.write("a", AMOUNTS)
    start(place, "gone", 1, ends=True, settings=settings, source="anew").get_job_execution_result().result(DEADLINE)
    assert {f"k{key} ends with {2 * key} at {10_000 + key}" for key in range(20)} < set(place.lines("out-gone"))


def in_parallel(taken: tuple[Place, str], place: Place, kind: str, spark: dict[str, str]) -> None:
    settings = settings_of(taken, kind, "") | spark
    jobs = {name: start(place, name, parallelism, settings=settings) for name, parallelism in [("a", 1), ("b", 3)]}
    place.write("b", {3: 100, 7: 100})
    for name, client in jobs.items():
        wait_for_records(client, 22)
        client.stop_with_savepoint(False).result(DEADLINE)
        assert sorted(place.lines(f"out-{name}")) == ["k3 103", "k7 107"]
    assert (taken[0].root / kind / METADATA).exists() or kind == "job"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_two_jobs_go_on_from_the_same_at_once(taken: tuple[Place, str], place: Place, kind: str) -> None:
    in_parallel(taken, place, kind, {})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("taken", "kind"), [("rocksdb", "native")], indirect=["taken"])
def test_two_jobs_on_spark_go_on_from_the_same_at_once(taken: tuple[Place, str], place: Place, kind: str) -> None:
    in_parallel(taken, place, kind, {"headrace.runtime": "spark", "headrace.spark.master": "local[2]"})


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("taken", "kind"), [("hashmap", "job"), ("rocksdb", "native"), ("rocksdb", "canonical")], indirect=["taken"]
)
def test_uids_are_mapped_on_spark(taken: tuple[Place, str], place: Place, kind: str) -> None:
    spark = {"headrace.runtime": "spark", "headrace.spark.master": "local[2]"}
    settings = settings_of(taken, kind, "totals=sums;lines=words") | spark
    client = start(place, "new", 3, ends=True, settings=settings, uid="sums", source="words")
    client.get_job_execution_result().result(DEADLINE)
    assert sorted(place.lines("out-new")) == ENDS


ONLY_POSITIONS = "execution.state-recovery.only-positions"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_positions_alone_are_taken_by_what_sources_read(taken: tuple[Place, str], kind: str) -> None:
    place, before = taken
    place.write(f"b-{kind}", {3: 100})
    fresh = len(list(place.input.glob("b-*")))
    (other,) = (each for each in BACKENDS if each != before)  # it reads no state of the job before
    settings = {FROM: str(place.root / kind), ONLY_POSITIONS: "true", "state.backend.type": other}
    client = start(place, f"only-{kind}", 3, settings=settings, uid="sums", source="words", sink="shown")
    wait_for_records(client, fresh)
    client.stop_with_savepoint(False).result(DEADLINE)
    assert place.totals(f"out-only-{kind}") == {"k3": 100 * fresh}


def test_uids_are_not_mapped_where_positions_alone_are_taken(taken: tuple[Place, str], place: Place) -> None:
    settings = settings_of(taken, "native", "totals=sums") | {ONLY_POSITIONS: "true"}
    with pytest.raises(ConfigurationError, match=r"finds sources by what they read: leave .*uid-mapping out"):
        start(place, "new", 1, settings=settings, uid="sums")
