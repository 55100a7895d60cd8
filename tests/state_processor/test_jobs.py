"""Jobs go on from savepoints that were written, with all that they hold, on both backends, at any parallelism."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.checkpoint.manifest_folder import manifest_numbers
from headrace.common import Configuration, Time, Types
from headrace.common.errors import SavepointError
from headrace.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from headrace.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter, compare
from headrace.storage.folder import posix_folder
from headrace.testing import JobHarness
from tests.savepoint.jobs import DEADLINE, Place, fed, start, wait_for_records
from tests.state_processor.every_state import RULES, job
from tests.storage.s3_server import S3Server

TOTAL = ValueStateDescriptor("total", Types.LONG())


@pytest.mark.parametrize(
    ("parallelism", "backend"), [pytest.param(1, "hashmap", marks=pytest.mark.slow), (3, "rocksdb")]
)
def test_all_that_a_job_holds(tmp_path: Path, parallelism: int, backend: str) -> None:
    """What it holds after its start is what was written; then its timers fire."""
    with JobHarness(job, parallelism=2) as harness:
        harness.push_all("rules", ["a", "bb"])
        harness.push_all("numbers", range(120))
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    writer = SavepointWriter.from_existing_savepoint(str(checkpoint.directory))
    for state in writer.reader.states():
        writer.replace_table(state.uid, state.store, writer.reader.read_table(state.uid, state.store))
    settings = {"execution.state-recovery.path": writer.write(f"{tmp_path}/first"), "state.backend.type": backend}
    with JobHarness(job, parallelism=parallelism, configuration=settings) as harness:
        harness.run_epoch()
        taken = harness.checkpoint()
        after = SavepointReader.read(str(taken.directory))
        changes = [str(change) for change in compare(writer.reader, after)]
        assert [change for change in changes if "union/" not in change] == []
        union = after.read_union_state("held", "union").column("value").to_pylist()
        assert sorted(union) == sorted([*range(0, 120, 2)] * parallelism), "each subtask has all"
        harness.push("numbers", 2_000_000)
        harness.run_epoch()
        fired = harness.results("a")
    assert sorted(fired) == [*range(1_000_000, 1_000_120)]


# --- keys of another type -------------------------------------------------------------------------------------------


class Counts(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()}: {self.count.value()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield f"{ctx.get_current_key()} at {timestamp}, event time {ctx.timer_service().current_watermark()}"


def counts_by(key_type: Any) -> Any:
    def build(harness: JobHarness) -> None:
        keyed = harness.add_source("numbers", Types.LONG()).key_by(lambda number: key_type(number % 10), key_type)
        harness.add_sink("counts", keyed.process(Counts(), Types.STRING()).uid("counts"))

    return build


def test_keys_of_another_type(tmp_path: Path) -> None:
    """The job goes on with texts where it had numbers; the operator keeps the event time that it has come to."""
    with JobHarness(counts_by(int), parallelism=2) as harness:
        harness.push_all("numbers", range(30))
        harness.advance_watermark("numbers", 500)
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    writer = SavepointWriter.from_existing_savepoint(str(checkpoint.directory))
    table = writer.reader.read_keyed_state("counts", "count")
    assert table.schema.field("key").type == pa.int64()
    texts = table.set_column(table.schema.get_field_index("key"), "key", table.column("key").cast(pa.string()))
    timers = {"key": ["4", "5"], "time": [400, 600]}
    keyed = OperatorTransformation.from_tables(str).with_state(ValueStateDescriptor("count", Types.LONG()), texts)
    writer.remove_operator("counts").with_operator("counts", keyed.with_timers(timers))
    settings = {"execution.state-recovery.path": writer.write(f"{tmp_path}/first")}
    with JobHarness(counts_by(str), parallelism=3, configuration=settings) as harness:
        harness.push("numbers", 7)
        harness.advance_watermark("numbers", 1000)
        harness.run_epoch()
        results = harness.results("counts")
    assert "7: 4" in results
    assert [line for line in results if " at " in line] == [
        "4 at 400, event time 1000",
        "5 at 600, event time 1000",
    ]


# --- after the end of a job ------------------------------------------------------------------------------------------


def test_a_job_goes_on_with_what_a_bounded_one_has_made(tmp_path: Path) -> None:
    """Its source begins anew, and so does event time: timers of the state fire when they are due."""
    known = {"headrace.runtime": "local", "parallelism.default": 2, "execution.checkpointing.dir": f"{tmp_path}/job"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(known))
    numbers = env.from_collection(range(30), Types.LONG()).uid("numbers").key_by(lambda number: number % 10, int)
    numbers.process(Counts(), Types.STRING()).uid("counts").print().uid("out")
    env.execute("counts")
    writer = SavepointWriter.from_existing_savepoint(f"{tmp_path}/job")
    assert writer.reader.manifest.finished
    table = writer.reader.read_keyed_state("counts", "count")
    keyed = OperatorTransformation.from_tables(int).with_state(ValueStateDescriptor("count", Types.LONG()), table)
    writer.remove_operator("counts").with_operator("counts", keyed.with_timers({"key": [4, 5], "time": [400, 600]}))
    settings = {"execution.state-recovery.path": writer.remove_operator("numbers").write(f"{tmp_path}/first")}
    with JobHarness(counts_by(int), configuration=settings) as harness:
        harness.push("numbers", 7)
        harness.advance_watermark("numbers", 500)
        harness.run_epoch()
        assert sorted(harness.results("counts")) == ["4 at 400, event time 500", "7: 4"]


# --- states of windows ------------------------------------------------------------------------------------------------

SEEN = ValueStateDescriptor("seen", Types.LONG())


class Sums(ProcessWindowFunction):
    """Adds to what its window has seen."""

    def process(self, key: int, context: Any, elements: Any) -> Any:
        seen = context.window_state().get_state(SEEN)
        yield f"{key} until {context.window().end}: {(seen.value() or 0) + sum(elements)}"


@pytest.mark.parametrize(("parallelism", "sliding"), [(1, False), (3, True)])
def test_states_of_windows(tmp_path: Path, parallelism: int, sliding: bool) -> None:
    rows = {"key": [1, 1, 2], "window_end": [100, 200, 100], "value": [10, 20, 30]}
    state = OperatorTransformation.from_tables(int).with_window_state(SEEN, rows)
    path = SavepointWriter.new_savepoint().with_operator("sums", state).write(f"{tmp_path}/first")
    size, step = Time.milliseconds(100), Time.milliseconds(50)

    def build(harness: JobHarness) -> None:
        keyed = harness.add_source("numbers", Types.LONG()).key_by(lambda number: number % 10, int)
        assigner = SlidingEventTimeWindows.of(size, step) if sliding else TumblingEventTimeWindows.of(size)
        harness.add_sink("sums", keyed.window(assigner).process(Sums(), Types.STRING()).uid("sums"))

    with JobHarness(build, parallelism=parallelism, configuration={"execution.state-recovery.path": path}) as harness:
        for number, timestamp in ((1, 60), (2, 60), (3, 60), (11, 160)):
            harness.push("numbers", number, timestamp)
        harness.advance_watermark("numbers", 1000)
        harness.run_epoch()
        found = {line for line in harness.results("sums") if line.split()[2] in ("100:", "200:")}
    assert found == {"1 until 100: 11", "2 until 100: 32", "3 until 100: 3", "1 until 200: 31"}


# --- what ages --------------------------------------------------------------------------------------------------------


class Remembers(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        seen = MapStateDescriptor("seen", Types.STRING(), Types.LONG())
        seen.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
        self.seen = runtime_context.get_map_state(seen)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ",".join(sorted(self.seen.keys()))


def test_values_expire_when_they_are_to(tmp_path: Path) -> None:
    seen = MapStateDescriptor("seen", Types.STRING(), Types.LONG())
    seen.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
    table = pa.table(
        {
            "key": pa.array([1, 1, 1]),
            "entry_key": ["early", "late", "never"],
            "value": pa.array([1, 2, 3]),
            "expiry": pa.array([5_000, 20_000, None], pa.int64()),
        }
    )
    state = OperatorTransformation.from_tables(Types.LONG()).with_state(seen, table)
    path = SavepointWriter.new_savepoint().with_operator("remembers", state).write(f"{tmp_path}/first")

    def build(harness: JobHarness) -> None:
        keyed = harness.add_source("numbers", Types.LONG()).key_by(lambda number: number, Types.LONG())
        harness.add_sink("seen", keyed.process(Remembers(), Types.STRING()).uid("remembers"))

    settings = {"execution.state-recovery.path": path}
    with JobHarness(build, configuration=settings) as harness:
        for now in (0, 10_000, 30_000):
            harness.set_processing_time(now)
            harness.push("numbers", 1)
            harness.run_epoch()
        assert harness.results("seen") == ["early,late,never", "late,never", "never"]


# --- broadcast state that tables begin with ---------------------------------------------------------------------------


def test_rules_that_a_job_begins_with(tmp_path: Path) -> None:
    rules = OperatorTransformation.from_tables(Types.LONG()).with_broadcast_state(
        RULES, {"entry_key": ["a", "b"], "value": [1, 2]}
    )
    path = SavepointWriter.new_savepoint().with_operator("ruled", rules).write(f"{tmp_path}/first")
    settings = {"execution.state-recovery.path": path}
    with JobHarness(job, parallelism=3, configuration=settings) as harness:
        harness.push_all("rules", ["ccc"])
        harness.run_epoch()
        taken = harness.checkpoint()
        after = SavepointReader.read(str(taken.directory)).read_broadcast_state("ruled", "rules")
    assert {row["entry_key"]: row["value"] for row in after.to_pylist()} == {"a": 1, "b": 2, "ccc": 3}


# --- checkpoints and other savepoints --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_native_savepoint_is_a_model_too(tmp_path: Path, backend: str) -> None:
    """It refers to files of the job; what is written refers to none."""
    place = Place(tmp_path)
    place.write("a", {key: key for key in range(20)})
    client = start(place, "job", 2, settings={"state.backend.type": backend})
    wait_for_records(client, 20)
    native = client.trigger_savepoint(None, "native").result(DEADLINE)
    client.stop().result(DEADLINE)
    path = SavepointWriter.from_existing_savepoint(native).write(f"{tmp_path}/written")
    assert list(compare(SavepointReader.read(native), SavepointReader.read(path))) == []
    assert SavepointReader.read(path).manifest.sources == SavepointReader.read(native).manifest.sources


def test_output_that_a_job_has_yet_to_publish(tmp_path: Path) -> None:
    """It is left to that job when somebody says so, and not by itself."""
    place = Place(tmp_path)
    place.write("a", {7: 5})
    client = start(place, "job", 1)
    wait_for_records(client, 1)
    client.cancel().result(DEADLINE)
    writer = SavepointWriter.from_existing_savepoint(str(tmp_path / "job"))
    assert writer.reader.manifest.pending or writer.reader.manifest.in_progress
    with pytest.raises(SavepointError, match=r"yet to publish output of out: .* call remove_operator\('out'\)"):
        writer.write(f"{tmp_path}/first")
    path = writer.remove_operator("out").write(f"{tmp_path}/first")
    assert SavepointReader.read(path).read_keyed_state("totals", "total").to_pylist() == [{"key": "k7", "value": 5}]


@pytest.mark.slow
def test_a_job_that_runs_is_a_model_all_the_while(tmp_path: Path) -> None:
    """Its checkpoints are replaced meanwhile; what is read and what is written is one of them, with its position."""
    place = Place(tmp_path)
    place.write("a", {0: 1})
    client = start(place, "job", 2)
    wait_for_records(client, 1)
    epochs = set()
    with fed(place, client):
        for number in range(5):
            writer = SavepointWriter.from_existing_savepoint(str(tmp_path / "job"))
            before = writer.reader.read_keyed_state("totals", "total")
            newest = manifest_numbers(posix_folder(tmp_path / "job").folder("manifests"))[-1]
            wait_for_records(client, client.get_accumulators().result()["numRecordsRead"] + 10)
            path = writer.remove_operator("out").write(f"{tmp_path}/written-{number}")
            reader = SavepointReader.read(path)
            assert sorted(map(repr, reader.read_keyed_state("totals", "total").to_pylist())) == sorted(
                map(repr, before.to_pylist())
            )
            total = sum(before.column("value").to_pylist())
            assert reader.manifest.counters["numRecordsRead"] == total, "state and position are of one checkpoint"
            assert reader.manifest.epoch <= newest
            epochs.add(reader.manifest.epoch)
    assert len(epochs) == 5


@pytest.mark.slow
def test_savepoints_on_an_object_store(s3: S3Server, tmp_path: Path) -> None:
    """One is written there, another one after its model, and a job begins with that."""
    uri = s3.new_place()
    options = s3.options()
    rows = {"key": ["k7", "k8"], "value": [70, 80]}
    tables = OperatorTransformation.from_tables(str).with_state(TOTAL, rows).with_timers({"key": ["k7"], "time": [9]})
    first = SavepointWriter.new_savepoint(options=options).with_operator("totals", tables).write(f"{uri}/first")
    with pytest.raises(SavepointError, match="holds a savepoint already"):
        SavepointWriter.new_savepoint(options=options).write(first)
    writer = SavepointWriter.from_existing_savepoint(first, options)
    second = writer.replace_table("totals", "state/total", {"key": ["k7"], "value": [700]}).write(f"{uri}/second")
    assert len(list(compare(SavepointReader.read(first, options), SavepointReader.read(second, options)))) == 2
    place = Place(tmp_path)
    place.write("a", {7: 1})
    settings: dict[str, str | None] = {"execution.state-recovery.path": second}
    settings |= {f"headrace.storage.{name.replace('_', '-')}": value for name, value in options.items()}
    client = start(place, "job", 2, settings=settings)
    wait_for_records(client, 1)
    client.stop(drain=True).result(DEADLINE)
    client.get_job_execution_result().result(DEADLINE)
    assert "k7 701" in place.lines("out-job")


# --- a process that is killed ----------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from headrace.common import Types
from headrace.datastream.state import ValueStateDescriptor
from headrace.state_processor import OperatorTransformation, SavepointWriter
import headrace.state_processor.writer as writer_module
total = ValueStateDescriptor("total", Types.LONG())
tables = OperatorTransformation.from_tables(Types.LONG()).with_state(total, {"key": [*range(100)], "value": [0] * 100})
writer_module.SavepointMetadata = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
SavepointWriter.new_savepoint().with_operator("totals", tables).write(sys.argv[1])
"""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_no_savepoint(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, f"{tmp_path}/first"], check=False)
    assert ended.returncode == -9
    left = sorted(file.name for file in (tmp_path / "first").rglob("*") if file.is_file())
    assert left == ["_in_progress", "part-1-0.parquet"]
    with pytest.raises(SavepointError, match="neither a savepoint nor a checkpoint directory"):
        SavepointReader.read(f"{tmp_path}/first")
