"""What a job has failed with is kept beside its checkpoints, with what enrichers say of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.checkpoint import failure_history
from headrace.checkpoint.failure_history import FailureHistory
from headrace.common import Configuration, FailureOrigin, JobFailure, Types
from headrace.common.errors import ConfigurationError, HeadraceError, UserFunctionError
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager import failover
from headrace.jobmanager.failover import FailureContext, FailureEnricher, labels_of, load_enrichers
from headrace.storage.folder import posix_folder
from tests.docs.documents import DOCS, example
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient


class Fails:
    """A function that fails at a number, the first times that it meets it."""

    def __init__(self, folder: Path, times: int) -> None:
        self._folder = folder
        self._times = times

    def __call__(self, number: int) -> int:
        if number == 3 and len(visits := list(self._folder.iterdir())) < self._times:
            (self._folder / str(len(visits))).touch()
            raise ValueError("three is too many")
        return number


def run(tmp_path: Path, times: int, restarts: int, runtime: str = "local", **more: str) -> JobClient:
    """Runs a job on a checkpoint directory; its function has failed so many times when the job has ended."""
    (tmp_path / "visits").mkdir(exist_ok=True)
    given = {"headrace.runtime": runtime, "parallelism.default": "1", "restart-strategy.type": "fixed-delay"}
    given |= {"restart-strategy.fixed-delay.attempts": str(restarts), "restart-strategy.fixed-delay.delay": "1 ms"}
    given |= {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **more}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    numbers = env.from_collection([1, 2, 3, 4], Types.LONG()).map(Fails(tmp_path / "visits", times), Types.LONG())
    numbers.name("careful").uid("the-careful-one").sink_to(CollectSink(lambda records: None))
    client = env.execute_async("numbers")
    client.get_job_execution_result().exception(timeout=PATIENCE)
    return client


def history(client: JobClient) -> list[JobFailure]:
    return client.get_exception_history().result()


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_the_history_outlives_runs_and_tells_operator_record_and_process(
    request: pytest.FixtureRequest, runtime: str, tmp_path: Path
) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    first = history(run(tmp_path, times=3, restarts=1, runtime=runtime))
    assert [(failure.number, failure.restarts) for failure in first] == [(1, 0), (2, 1)]
    assert [failure.restart_in for failure in first] == [0.001, None]
    second = history(run(tmp_path, times=3, restarts=1, runtime=runtime))
    assert second[:2] == first
    last = second[2]
    assert (last.number, last.restarts, last.restart_in, last.error) == (3, 0, 0.001, "UserFunctionError")
    assert "three is too many" in last.message
    assert last.origin is not None
    origin = last.origin
    assert (origin.operator, origin.uid, origin.subtask, origin.record) == ("careful", "the-careful-one", 0, "3")
    assert origin.executor is not None
    assert "process" in origin.executor
    assert last.time > 1_500_000_000_000
    assert FailureHistory(posix_folder(tmp_path / "checkpoints")).read() == second
    assert history(run(tmp_path, times=3, restarts=1, runtime=runtime)) == second, "the job has finished"


def test_so_many_are_kept(tmp_path: Path) -> None:
    kept = history(run(tmp_path, times=7, restarts=20, **{"web.exception-history-size": "3"}))
    assert [failure.number for failure in kept] == [5, 6, 7]
    assert FailureHistory(posix_folder(tmp_path / "checkpoints"), 3).read() == kept


def test_without_a_checkpoint_directory_the_client_still_knows() -> None:
    given = {"headrace.runtime": "local", "parallelism.default": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    env.from_collection([0]).map(lambda number: 1 // number).name("divide").print()
    client = env.execute_async("divisions")
    client.get_job_execution_result().exception(timeout=PATIENCE)
    (failure,) = history(client)
    assert failure.origin is not None
    assert failure.origin.operator == "divide"


# --- the files -------------------------------------------------------------------------------------------------------

FAILURE = JobFailure(
    0, 17, 3, "UserFunctionError", "ä\n b", 2, 0.5, FailureOrigin("parse", "p", 1, "'x'", "host"), {"owner": "me"}
)


def test_a_failure_comes_back_as_it_was(tmp_path: Path) -> None:
    files = FailureHistory(posix_folder(tmp_path))
    assert files.read() == []
    added = files.add(FAILURE)
    assert added.number == 1
    assert files.read() == [added]


def test_damaged_files_are_left_out_and_the_others_are_as_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = FailureHistory(posix_folder(tmp_path))
    added = [files.add(FAILURE) for _ in range(4)]
    folder = tmp_path / "failures"
    cut, flipped = folder / "00000001.json", folder / "00000003.json"
    cut.write_bytes(cut.read_bytes()[:-20])
    flipped.write_bytes(flipped.read_bytes().replace(b"17", b"18"))
    (folder / "README").write_text("of somebody else")
    assert files.read() == [added[1], added[3]]
    assert len([record for record in caplog.records if "left out" in record.getMessage()]) == 2
    assert files.add(FAILURE).number == 5
    assert (folder / "README").exists()


def test_two_that_add_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    histories = [FailureHistory(posix_folder(tmp_path), 100) for _ in range(4)]
    threads = [threading.Thread(target=lambda one=one: [one.add(FAILURE) for _ in range(10)]) for one in histories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [failure.number for failure in histories[0].read()] == list(range(1, 41))


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    files = FailureHistory(posix_folder(tmp_path))
    files.add(JobFailure(0, 1, 1, "OSError", "x" * 100_000))
    (read,) = files.read()
    assert read.message.endswith("... (80000 characters more)")


def test_a_history_that_cannot_be_written_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(failure_history.FailureHistory, "add", fails)
    client = run(tmp_path, times=1, restarts=0 + 1)
    assert client.get_job_execution_result().exception() is None
    assert [failure.number for failure in history(client)] == [1]
    assert "cannot be kept" in caplog.text


# --- enrichers -------------------------------------------------------------------------------------------------------


class Owner(FailureEnricher):
    output_keys = frozenset({"owner"})

    def process_failure(self, error: BaseException, context: FailureContext) -> Mapping[str, str]:
        assert context.origin is not None
        return {"owner": f"{context.job_name}/{context.origin.operator}", "is-final": str(context.is_final)}


class Raises(FailureEnricher):
    output_keys = frozenset({"raised"})

    def process_failure(self, error: BaseException, context: FailureContext) -> Mapping[str, str]:
        raise SystemExit(3)


class Hangs(FailureEnricher):
    output_keys = frozenset({"hung"})
    released = threading.Event()

    def process_failure(self, error: BaseException, context: FailureContext) -> Mapping[str, str]:
        self.released.wait(PATIENCE)
        return {"hung": "late"}


class GivesNothing(FailureEnricher):
    output_keys = frozenset({"nothing"})

    def process_failure(self, error: BaseException, context: FailureContext) -> Mapping[str, str]:
        return None  # type: ignore[return-value]


class AlsoOwner(Owner):
    pass


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kinds = {kind.__name__.lower(): kind for kind in (Owner, Raises, Hangs, GivesNothing, AlsoOwner)}
    monkeypatch.setattr(failover, "FAILURE_ENRICHERS", _Installed(kinds))
    yield
    Hangs.released.set()


class _Installed:
    """A group of plugins without distributions."""

    def __init__(self, kinds: Mapping[str, type[FailureEnricher]]) -> None:
        self._kinds = kinds

    def load(self, name: str) -> FailureEnricher:
        return self._kinds[name](name)


def test_an_enricher_that_misbehaves_hides_nothing(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failover, "ENRICHER_SECONDS", 0.2)
    names = {"jobmanager.failure-enrichers": "raises, hangs,givesnothing;owner"}
    client = run(tmp_path, times=2, restarts=1, **names)
    assert isinstance(client.get_job_execution_result().exception(), UserFunctionError)
    assert [failure.labels for failure in history(client)] == [{"owner": "numbers/careful"}] * 2
    for told in ("'raises' failed", "'hangs' has not labelled", "'givesnothing' failed", "is-final"):
        assert told in caplog.text


def test_two_that_give_the_same_label_are_refused(installed: None) -> None:
    assert load_enrichers(None) == load_enrichers("") == []
    with pytest.raises(ConfigurationError, match=r"'owner' and .* 'alsoowner' both give the label 'owner'"):
        load_enrichers("owner,alsoowner")


def test_one_that_is_not_there_is_told_before_the_job_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no failure enricher 'pager'"):
        run(tmp_path, 0, 0 + 1, **{"jobmanager.failure-enrichers": "pager"})


def test_the_enricher_of_the_page_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "acme-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[headrace.failure_enrichers]\nowner = plugged_owner:Owner\n")
    (tmp_path / "plugged_owner.py").write_text(example(DOCS / "plugins.md", "enricher"))
    monkeypatch.syspath_prepend(str(tmp_path))
    client = run(tmp_path, times=1, restarts=1, **{"jobmanager.failure-enrichers": "owner"})
    assert [failure.labels for failure in history(client)] == [{"owner": "authors"}]


def test_labels_are_text() -> None:
    class Counts(Owner):
        def process_failure(self, error: BaseException, context: FailureContext) -> Any:
            return {"owner": 7}

    context = FailureContext("id", "job", 1, True, None)
    assert labels_of([Counts("counts")], HeadraceError("x"), context) == {"owner": "7"}
