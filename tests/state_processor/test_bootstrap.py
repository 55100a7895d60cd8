"""State that functions make out of records, for jobs that begin with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError
from headrace.datastream import KeyedProcessFunction
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from headrace.state_processor import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
)
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records
from tests.state_processor.every_state import Mean

ORDERS = {"user": [f"k{number % 5}" for number in range(100)], "amount": [*range(100)]}
TOTALS = {f"k{key}": sum(range(key, 100, 5)) for key in range(5)}


class Totals(KeyedStateBootstrapFunction):
    """The state of the job of tests.savepoint.jobs, and a timer that is due at once."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.total.update((self.total.value() or 0) + value["amount"])
        ctx.timer_service().register_event_time_timer(20_000)
        ctx.timer_service().register_processing_time_timer(1)


def bootstrap(data: Any, function: Any = None) -> Any:
    records = OperatorTransformation.bootstrap_with(data)
    return records.key_by(lambda order: order["user"], Types.STRING()).transform(function or Totals())


def written(folder: Path, transformation: Any, uid: str = "totals", parallelism: int = 2) -> SavepointReader:
    configuration = Configuration.from_dict({"parallelism.default": str(parallelism)})
    writer = SavepointWriter.new_savepoint(8).with_configuration(configuration).with_operator(uid, transformation)
    return SavepointReader.read(writer.write(f"{folder}/first"))


def totals_of(reader: SavepointReader) -> dict[str, int]:
    return {row["key"]: row["value"] for row in reader.read_keyed_state("totals", "total").to_pylist()}


DATA = {
    "Arrow": pa.table(ORDERS),
    "a batch": pa.RecordBatch.from_pydict(ORDERS),
    "pandas": pd.DataFrame(ORDERS),
    "elements": pa.table(ORDERS).to_pylist(),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("library", DATA)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_state_and_timers_of_records(tmp_path: Path, library: str, parallelism: int) -> None:
    reader = written(tmp_path, bootstrap(DATA[library]), parallelism=parallelism)
    assert totals_of(reader) == TOTALS
    timers = reader.read_timers("totals").to_pylist()
    assert sorted((timer["domain"], timer["time"], timer["key"]) for timer in timers) == [
        (domain, time, key) for domain, time in (("event", 20_000), ("processing", 1)) for key in sorted(TOTALS)
    ], "none has fired"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_goes_on_from_it(tmp_path: Path, backend: str) -> None:
    place = Place(tmp_path)
    transformation = bootstrap(pa.table(ORDERS))
    path = SavepointWriter.new_savepoint().with_operator("totals", transformation).write(f"{tmp_path}/first")
    place.write("a", {1: 1000})
    more = {"execution.state-recovery.path": path, "state.backend.type": backend}
    client = start(place, "job", 3, settings=more)
    wait_for_records(client, 1)
    client.stop(drain=True).result(DEADLINE)
    client.get_job_execution_result().result(DEADLINE)
    ends = {line for line in place.lines("out-job") if line.endswith(" at 20000")}
    assert ends == {f"{key} ends with {total + 1000 * (key == 'k1')} at 20000" for key, total in TOTALS.items()}


class Everything(KeyedStateBootstrapFunction):
    def open(self, runtime_context: Any) -> None:
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.STRING()))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        mean = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        assert ctx.get_current_key() == value["user"]
        assert ctx.timestamp() == value["amount"] * 1000
        self.list.add(value["amount"])
        self.map.put(value["amount"], value["user"])
        self.most.add(value["amount"])
        self.mean.add(value["amount"])


def test_every_kind_of_state(tmp_path: Path) -> None:
    records = OperatorTransformation.bootstrap_with(pa.table(ORDERS))
    records = records.assign_timestamps(lambda order, _: order["amount"] * 1000)
    reader = written(tmp_path, records.key_by("user").transform(Everything()))
    of_k1 = [row["value"] for row in reader.read_keyed_state("totals", "list").to_pylist() if row["key"] == "k1"]
    assert of_k1 == [*range(1, 100, 5)], "in the order of the records"
    assert reader.read_keyed_state("totals", "map").num_rows == 100
    most = {row["key"]: row["value"] for row in reader.read_keyed_state("totals", "most").to_pylist()}
    assert most == {f"k{key}": 95 + key for key in range(5)}
    means = {row["key"]: row["value"] for row in reader.read_keyed_state("totals", "mean").to_pylist()}
    assert means == {key: {"f0": total, "f1": 20} for key, total in TOTALS.items()}


class Lists(StateBootstrapFunction):
    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.even = store.get_list_state(ListStateDescriptor("even", Types.LONG()))
        self.odd = store.get_union_list_state(ListStateDescriptor("odd", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        (self.odd if value % 2 else self.even).add(value)

    def snapshot_state(self, context: Any) -> None:
        pass


def test_lists_of_subtasks(tmp_path: Path) -> None:
    reader = written(tmp_path, OperatorTransformation.bootstrap_with(range(20)).transform(Lists()))
    assert sorted(reader.read_list_state("totals", "even").column("value").to_pylist()) == [*range(0, 20, 2)]
    assert sorted(reader.read_union_state("totals", "odd").column("value").to_pylist()) == [*range(1, 20, 2)]


RATES = MapStateDescriptor("rates", Types.STRING(), Types.LONG())


class Shared(BroadcastStateBootstrapFunction):
    """The last amount of each user, in all subtasks."""

    def initialize_state(self, context: Any) -> None:
        self.rates = context.get_operator_state_store().get_broadcast_state(RATES)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.rates.put(value[0], value[1])


@pytest.mark.parametrize("parallelism", [1, 3])
def test_broadcast_state_of_all_records(tmp_path: Path, parallelism: int) -> None:
    """Each subtask has what all records make."""
    pairs = [(f"k{number % 4}", number) for number in range(20)]
    made = OperatorTransformation.bootstrap_with(pairs).transform(Shared())
    reader = written(tmp_path, made, parallelism=parallelism)
    found = reader.read_broadcast_state("totals", "rates").sort_by("entry_key")
    assert found.column("value").to_pylist() == [16, 17, 18, 19]
    copies = [table for table in reader._job.tables() if table.store == "broadcast/rates"]
    assert len(copies) == parallelism
    assert len({str(sorted(map(str, table.whole().to_pylist()))) for table in copies}) == 1


class Rates(StateBootstrapFunction):
    def initialize_state(self, context: Any) -> None:
        self.rates = context.get_operator_state_store().get_broadcast_state(RATES)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.rates.put(value[0], value[1])

    def snapshot_state(self, context: Any) -> None:
        pass


def test_broadcast_state_of_shares_is_refused(tmp_path: Path) -> None:
    """Each subtask would have it of other records."""
    made = OperatorTransformation.bootstrap_with([("a", 1)]).transform(Rates())
    with pytest.raises(InvalidProgramError, match="broadcast state 'rates', which is for a BroadcastState"):
        written(tmp_path, made, parallelism=1)


def test_records_that_are_gone_through_once_are_kept(tmp_path: Path) -> None:
    made = OperatorTransformation.bootstrap_with(iter(range(20))).transform(Lists())
    for name in ("one", "other"):
        reader = written(tmp_path / name, made)
        assert len(reader.read_list_state("totals", "even").column("value")) == 10


def test_an_operator_beside_those_of_a_savepoint(tmp_path: Path) -> None:
    """It is replaced by what a function makes, and the others stay."""
    given = OperatorTransformation.from_tables(str).with_state(
        ValueStateDescriptor("total", Types.LONG()), {"key": ["eve"], "value": [5]}
    )
    writer = SavepointWriter.new_savepoint(8).with_operator("totals", given).with_operator("others", given)
    first = writer.write(f"{tmp_path}/first")
    writer = SavepointWriter.from_existing_savepoint(first).remove_operator("totals")
    reader = SavepointReader.read(writer.with_operator("totals", bootstrap(pa.table(ORDERS))).write(f"{tmp_path}/next"))
    assert totals_of(reader) == TOTALS
    assert reader.read_keyed_state("others", "total").to_pylist() == [{"key": "eve", "value": 5}]


# --- mistakes ---------------------------------------------------------------------------------------------------------


class Emitting(Totals):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value["amount"]


class Failing(Totals):
    def process_element(self, value: Any, ctx: Any) -> None:
        raise ValueError(f"no {value['amount']}")


class Timed(Totals):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


def test_a_function_that_gives_results(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="'totals': its function gives 0, and one that makes state gives no"):
        written(tmp_path, bootstrap(pa.table(ORDERS), Emitting()), parallelism=1)


def test_a_function_with_timers() -> None:
    with pytest.raises(InvalidProgramError, match="Timed has a method on_timer, which is never called here"):
        bootstrap(pa.table(ORDERS), Timed())


def test_a_function_of_another_kind() -> None:
    with pytest.raises(InvalidTypeError, match="KeyedStateBootstrapFunction"):
        bootstrap(pa.table(ORDERS), len)
    with pytest.raises(InvalidTypeError, match="StateBootstrapFunction"):
        OperatorTransformation.bootstrap_with([1]).transform(Totals())


def test_records_that_are_none() -> None:
    with pytest.raises(InvalidTypeError, match="bootstrap_with takes an Iterable, not None"):
        OperatorTransformation.bootstrap_with(None)


@pytest.mark.parametrize(
    ("type_", "told"),
    [
        (Types.ROW_NAMED(["user", "amount"], [int, int]), "column 'user': a column of type string cannot be read as"),
        (Types.ROW_NAMED(["user", "price"], [str, int]), "the table has no column 'price': its columns are user"),
        (Types.STRING(), "records of a table have fields, which are its columns: String has none"),
    ],
)
def test_records_of_another_type(tmp_path: Path, type_: Any, told: str) -> None:
    keyed = OperatorTransformation.bootstrap_with(pa.table(ORDERS), type_).key_by("user", Types.STRING())
    with pytest.raises(HeadraceError, match=told):
        written(tmp_path, keyed.transform(Totals()), parallelism=1)


def test_a_function_that_fails(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="no 0") as failed:
        written(tmp_path, bootstrap(pa.table(ORDERS), Failing()), parallelism=1)
    assert "uid totals" in str(failed.value)
    assert "user='k0', amount=0" in str(failed.value)
    assert not (tmp_path / "first" / "_metadata.json").exists()
