"""Tasks that were run more than once: only the attempt that counts goes on, and what is left over is closed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Encoder
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor
from headrace.jobmanager.job_manager import JobManager
from headrace.storage.folder import Folder
from headrace.testing.pushed import RecordingSink
from tests.runtime.task.two_workers import Attempts, BothAtOnce, TwoWorkers, run_job

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TOKEN = Types.TUPLE([Types.LONG(), Types.STRING()])
EPOCHS = 4

made: list[str] = []
closed: list[str] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    made.clear()
    closed.clear()


class Remember(KeyedProcessFunction):
    """Puts a random token into state with the first record, and gives it out with every one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.token = runtime_context.get_state(ValueStateDescriptor("token", Types.STRING()))
        self.name = f"{runtime_context.get_index_of_this_subtask()}-{uuid.uuid4().hex}"
        made.append(self.name)

    def close(self) -> None:
        closed.append(self.name)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if self.token.value() is None:
            self.token.update(uuid.uuid4().hex)
        yield value[1], self.token.value()


def job(attempts: Attempts, folder: Path, sink: RecordingSink, **settings: str) -> tuple[JobManager, TwoWorkers]:
    """A job that reads a record an epoch for each reader."""

    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_collection([("a", number) for number in range(2 * EPOCHS)], PAIR).uid("numbers")
        numbers.key_by("f0").process(Remember(), TOKEN).uid("remember").sink_to(sink).uid("out")

    runtime = TwoWorkers(attempts)
    limit = {
        "headrace.epoch.max-records": "1",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.first-records": "1",
    }
    return run_job(build, runtime, folder, limit | settings), runtime


@pytest.mark.slow
def test_a_kept_chain_goes_on_only_from_the_attempt_that_counts(tmp_path: Path) -> None:
    """In epoch 1 the first worker has made a token, then the second one another; the first has epoch 2 again."""
    sink = RecordingSink()
    manager, _ = job(lambda epoch: [(0,), (1,)] if epoch == 1 else [(0,)], tmp_path, sink)
    manager.run()
    tokens = {token for (_, token), _ in sink.records}
    assert [number for (number, _), _ in sink.records] == list(range(2 * EPOCHS))
    assert len(tokens) == 1, "state that no manifest names has come to be current"


@pytest.mark.slow
def test_what_a_superseded_attempt_has_made_is_closed_at_once(tmp_path: Path) -> None:
    manager, _ = job(lambda epoch: [(0,), (1,)] if epoch == 1 else [(0,)], tmp_path, RecordingSink())
    manager.open()
    manager.run_epoch()
    superseded, _ = made
    assert closed == []
    manager.run_epoch()
    assert closed == [superseded]
    manager.close()
    assert sorted(closed) == sorted(made)


@pytest.mark.slow
def test_an_attempt_that_did_the_same_may_go_on(tmp_path: Path) -> None:
    """Both have read the state of epoch 1 and changed nothing since, so either has the state that counts."""
    manager, _ = job(lambda epoch: [(0,), (1,)] if epoch == 2 else [(0,)], tmp_path, RecordingSink())
    manager.run()
    assert len(made) == 2


@pytest.mark.slow
def test_a_task_that_has_moved_away_is_closed(tmp_path: Path) -> None:
    """The other worker keeps running tasks of the job, so it hears of the epochs that it has no part in."""

    def attempts(epoch: int) -> list[tuple[int, ...]]:
        return [(0, 0)] if epoch == 1 else [(0, 1)]

    sink = RecordingSink()
    manager, runtime = job(attempts, tmp_path, sink, **{"parallelism.default": "2"})
    manager.open()
    manager.run_epoch()
    moved = next(name for name in made if name.startswith("1-"))
    manager.run_epoch()
    assert moved not in closed, "it did the epoch before: its task might have come back"
    manager.run_epoch()
    assert moved in closed
    kept = [len(worker._cache._chains) for worker in runtime.workers]
    assert kept == [2, 2], "each has a task of both stages"
    manager.close()
    assert sorted(closed) == sorted(made)


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


@pytest.mark.slow
def test_attempts_that_run_at_once_write_the_same_files_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with speculation: whichever attempt Spark takes, in this epoch and in the next."""
    keys, records = 50, 3_000
    sink = RecordingSink()
    written: dict[str, list[bytes]] = {}
    write = Folder.write

    def watched(self: Folder, name: str, chunks: Iterable[Any], *, durable: bool = True) -> None:
        content = b"".join(memoryview(chunk) for chunk in chunks)
        if name.endswith(".state"):
            written.setdefault(name, []).append(content)
        write(self, name, [content], durable=durable)

    monkeypatch.setattr(Folder, "write", watched)

    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_collection([(f"key {number % keys}", number) for number in range(records)], PAIR)
        counted = numbers.key_by("f0").process(Count(), PAIR).uid("count")
        counted.sink_to(sink).uid("out")
        files = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        counted.key_by("f0").sum("f1").uid("sum").sink_to(files).uid("files")

    runtime = BothAtOnce()
    settings = {
        "parallelism.default": "2",
        "headrace.epoch.max-records": "250",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.first-records": "500",
        "execution.checkpointing.data-inline-threshold": "0",
    }
    run_job(build, runtime, tmp_path / "checkpoint", settings).run()
    assert len(runtime.reports) >= 5
    for first, second in runtime.reports:
        assert first == second, "nothing of a report tells the attempts apart"
    counts = [record for record, _ in sink.records]
    assert sorted(counts) == sorted((f"key {key}", n + 1) for key in range(keys) for n in range(records // keys))
    assert written
    assert {len(contents) for contents in written.values()} == {2}, "both attempts have written each file"
    assert all(one == other for one, other in written.values())
    published = [line for part in (tmp_path / "out").rglob("part-*") for line in part.read_text().splitlines()]
    assert len(published) == records
