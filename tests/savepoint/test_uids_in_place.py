"""Jobs that go on in their own checkpoint directory, with operators, sources and sinks that have other uids now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError, HeadraceError, StateMigrationError
from headrace.datastream.connectors.file_system import RollingPolicy
from headrace.jobmanager import checkpoints
from headrace.state_processor import SavepointReader
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

MAP = "execution.state-recovery.uid-mapping"
AMOUNTS = {key: key for key in range(20)}
SPARK = {"headrace.runtime": "spark", "headrace.spark.master": "local[2]"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("a", AMOUNTS)
    return place


AT_ONCE = RollingPolicy.on_checkpoint_rolling_policy()


def first_run(place: Place, backend: str = "hashmap", policy: RollingPolicy = AT_ONCE) -> dict[str, str]:
    """A job that has been stopped, and the settings that it goes on with."""
    settings = {"state.backend.type": backend}
    client = start(place, "job", 2, settings=dict(settings), policy=policy)
    wait_for_records(client, 20)
    client.stop().result(DEADLINE)
    client.get_job_execution_result().result(DEADLINE)
    return settings


def goes_on(place: Place, settings: dict[str, str], policy: RollingPolicy = AT_ONCE, **uids: Any) -> Any:
    return start(place, "job", 3, settings=dict(settings), policy=policy, **uids)


def moved(place: Place, settings: dict[str, str]) -> None:
    """State, timers, positions: all go on under other uids, and so again when the same command is run again."""
    uids = {"uid": "sums", "source": "words", "sink": "shown"}
    mapping = settings | {MAP: "totals=sums; lines=words; out=shown"}
    place.write("b", {3: 100})
    client = goes_on(place, mapping, **uids)
    wait_for_records(client, 21)
    client.stop().result(DEADLINE)
    client.get_job_execution_result().result(DEADLINE)
    stored = SavepointReader.read(place.root / "job")
    assert {state.uid for state in stored.states()} == {"sums"}
    assert set(stored.manifest.sources) == {"words"}
    for again in (mapping, settings):
        place.write(f"c{len(again)}", {5: 1000})
        client = goes_on(place, again, **uids)
        wait_for_records(client, 22 if again is mapping else 23)
        client.stop().result(DEADLINE)
        client.get_job_execution_result().result(DEADLINE)
    assert place.totals("out-job") == {f"k{key}": key for key in AMOUNTS} | {"k3": 103, "k5": 2005}
    assert len(place.lines("out-job")) == 23, "nothing is read or shown again"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_all_goes_on_under_other_uids(place: Place, backend: str) -> None:
    moved(place, first_run(place, backend))


@pytest.mark.spark
def test_on_spark(place: Place) -> None:
    moved(place, first_run(place) | SPARK)


def test_whatever_fails_the_next_start_does_it_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = first_run(place)
    with monkeypatch.context() as patched:

        def fails(*args: Any) -> None:
            raise HeadraceError("no space left")

        patched.setattr(checkpoints, "with_renamed_state", fails)
        mapping = settings | {MAP: "totals=sums"}
        with pytest.raises(HeadraceError, match="no space left"):
            goes_on(place, mapping, uid="sums").get_job_execution_result().result(DEADLINE)
    assert {state.uid for state in SavepointReader.read(place.root / "job").states()} == {"totals"}
    moved(place, settings)


MISTAKES = {
    "total=sums": "nothing is stored under the uid 'total', but under 'lines', 'out', 'totals'",
    "totals=sum": "the program has no operator with the uid 'sum'; it has ",
    "totals=lines": "something is stored under the uid 'lines' already",
    "totals=lines;lines=totals": "'totals' gets another uid as well, and the next start would do that again",
}


@pytest.mark.parametrize("mapping", MISTAKES)
def test_a_mapping_that_does_not_fit_is_refused(place: Place, mapping: str) -> None:
    settings = first_run(place)
    before = sorted(path.name for path in (place.root / "job" / "manifests").iterdir())
    with pytest.raises(StateMigrationError, match=MISTAKES[mapping]):
        goes_on(place, settings | {MAP: mapping}, uid="sums").get_job_execution_result().result(DEADLINE)
    assert sorted(path.name for path in (place.root / "job" / "manifests").iterdir()) == before


def test_a_sink_that_has_output_to_publish_keeps_its_uid(place: Place) -> None:
    policy = RollingPolicy.default_rolling_policy(part_size=1 << 30, rollover_interval=10**9, inactivity_interval=10**9)
    settings = first_run(place, policy=policy)
    assert SavepointReader.read(place.root / "job").manifest.in_progress
    client = goes_on(place, settings | {MAP: "out=shown"}, policy, sink="shown")
    with pytest.raises(StateMigrationError, match="the sink 'out' has output that it has yet to publish"):
        client.get_job_execution_result().result(DEADLINE)


def test_a_mapping_needs_a_checkpoint(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="it has no checkpoint yet: set execution"):
        start(place, "new", 1, settings={MAP: "totals=sums"}).get_job_execution_result().result(DEADLINE)
