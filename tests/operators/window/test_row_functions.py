"""Windows with functions of the user: what is called, with what, in which order, and what it may keep."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from test_against_model import CODEC, assigner_of, drive, ranks, scenarios
from window_harness import INPUT, Driver
from window_model import MAX, MIN, Model, Record

from headrace.common.batch import Batch
from headrace.common.errors import UserFunctionError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row
from headrace.datastream.functions import ProcessWindowFunction
from headrace.operators.window.general import ordered_contents
from headrace.operators.window.general.ordered_operator import window_operator
from headrace.operators.window.general.window_functions import WindowCall
from headrace.operators.window.general.window_operator import CalledWindows
from headrace.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from headrace.state.keyed.table import StateTable
from headrace.state.keys import KeyCodec
from headrace.state.keys.encoding import ClassRegistry, KeyEncoder
from headrace.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.windowing.definition import WindowDefinition, WindowFunctions
from headrace.windowing.trigger import TriggerResult
from headrace.windowing.triggers import EventTimeTrigger
from tests.draws import draws

ANY = Types.PICKLED_BYTE_ARRAY()
TENS = TumblingEventTimeWindows.of(10)


def driver(
    fresh: bool = True,
    codec: KeyCodec = CODEC,
    input_type: TypeInformation = INPUT,
    output_type: TypeInformation = ANY,
    side_types: Mapping[str, TypeInformation] = MappingProxyType({}),
    **parts: Any,
) -> Driver:
    windows = {name: parts.pop(name) for name in ("assigner", "trigger", "allowed_lateness") if name in parts}
    definition = WindowDefinition(**{"assigner": TENS, "trigger": EventTimeTrigger(), **windows})
    assert definition.fixed_windows is not None
    make = partial(
        window_operator, CalledWindows(definition, WindowFunctions(**parts), input_type, output_type, side_types)
    )
    return Driver(make, type=input_type, codec=codec, fresh=fresh)


def outputs(run: Driver) -> list[Any]:
    return [row for batch in run.out.batches for row in batch.rows]


def add_values(left: Row, right: Row) -> Row:
    left["value"] += right["value"]  # changes its argument in place, as many do
    return left


class Mean:
    """Counts how often each method is called."""

    merges = 0

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Row, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value["value"], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: Any, b: Any) -> Any:
        Mean.merges += 1
        return a[0] + b[0], a[1] + b[1]


class Process:
    """Tells everything that a ``ProcessWindowFunction`` learns."""

    def process(self, key: int, context: Any, elements: Any) -> Any:
        window = context.window()
        values = [e["value"] if isinstance(e, Row) else e for e in elements]
        yield key, window.start, window.end, context.current_watermark(), context.current_processing_time(), values


def test_reduce() -> None:
    run = driver(reduce_function=add_values, output_type=INPUT)
    run.run([[Record(1, 1.0, 1), Record(2, 5.0, 2)], [Record(1, 2.0, 3)]])
    run.run([[Record(1, 4.0, 3)]], upto=MAX)
    assert sorted(row[1:] for row in run.out.rows) == [(9, 1, 7.0), (9, 2, 5.0)]


def test_reduce_changes_neither_its_input_nor_other_windows() -> None:
    run = driver(assigner=SlidingEventTimeWindows.of(10, 5), reduce_function=add_values, output_type=INPUT)
    run.run([[Record(1, 1.0, 6), Record(1, 2.0, 7)]], upto=MAX)
    assert [row["value"] for row in outputs(run)] == [3.0, 3.0]


def test_what_was_emitted_does_not_change_when_late_elements_come() -> None:
    run = driver(reduce_function=add_values, output_type=INPUT, allowed_lateness=100)
    run.run([[Record(1, 1.0, 6, MIN), Record(1, 2.0, 7, 20), Record(1, 4.0, 7, 20)]])
    assert [row["value"] for row in outputs(run)] == [1.0, 3.0, 7.0]


def test_aggregate_never_merges() -> None:
    run = driver(aggregate_function=Mean(), accumulator_type=Types.TUPLE([Types.DOUBLE(), Types.LONG()]))
    for value in (1.0, 2.0, 6.0):
        run.run([[Record(1, value, 1)]])
    run.run([], upto=MAX)
    assert outputs(run) == [3.0]
    assert Mean.merges == 0


def test_aggregate_with_a_window_function_gets_one_element() -> None:
    run = driver(aggregate_function=Mean(), window_function=Process())
    run.run([[Record(1, 1.0, 1), Record(1, 3.0, 2)]], upto=25)
    assert outputs(run) == [(1, 0, 10, 25, 1000, [2.0])]


def test_reduce_with_a_window_function_gets_one_element() -> None:
    run = driver(reduce_function=add_values, window_function=Process())
    run.run([[Record(1, 1.0, 1), Record(1, 3.0, 2)]], upto=25)
    assert outputs(run) == [(1, 0, 10, 25, 1000, [4.0])]


def test_process_gets_all_elements_in_order_of_arrival() -> None:
    run = driver(window_function=Process())
    run.run([[Record(1, 1.0, 4)], [Record(1, 2.0, 3)]])
    run.run([[Record(1, 3.0, 2)]], upto=9)
    assert outputs(run) == [(1, 0, 10, 9, 1001, [1.0, 2.0, 3.0])]


def test_more_elements_than_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_contents, "BLOCK", 3)
    run = driver(window_function=Process())
    counts = {1: 1, 2: 7, 3: 2, 4: 1, 5: 4}
    values = {key: [float(10 * key + i) for i in range(count)] for key, count in counts.items()}
    run.run([[Record(key, value, 1) for value in values[key][:1]] for key in values])
    run.run([[Record(key, value, 2) for key in values for value in values[key][1:]]], upto=9)
    assert {key: held for key, _, _, _, _, held in outputs(run)} == values


def test_records_are_made_only_when_a_window_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    decode = ordered_contents.array_to_values
    monkeypatch.setattr(ordered_contents, "array_to_values", lambda t, a: made.append(len(a)) or decode(t, a))
    monkeypatch.setattr(Batch, "rows", property(lambda batch: pytest.fail("nobody needs the records")))
    run = driver(window_function=lambda key, window, elements: [(key, len(list(elements)))])
    run.run([[Record(1, 1.0, 4), Record(2, 1.0, 14)], [Record(1, 2.0, 3)]])
    assert made == []
    run.run([], upto=9)
    monkeypatch.undo()
    assert made == [2]
    assert outputs(run) == [(1, 2)]


def test_what_a_function_keeps_of_a_window_does_not_change_when_late_elements_come() -> None:
    seen: list[Any] = []
    run = driver(window_function=lambda key, window, elements: seen.append(elements), allowed_lateness=100)
    run.run([[Record(1, 1.0, 6, MIN), Record(1, 2.0, 7, 20)], [Record(1, 4.0, 7, 20)]])
    run.run([[Record(1, 8.0, 7, 20)]])
    assert [[row["value"] for row in rows] for rows in seen] == [
        [1.0],
        [1.0, 2.0],
        [1.0, 2.0, 4.0],
        [1.0, 2.0, 4.0, 8.0],
    ]


def test_the_watermark_is_the_new_one_when_a_window_fires_between_records() -> None:
    run = driver(window_function=Process(), allowed_lateness=50)
    run.run([[Record(1, 1.0, 4, 3), Record(1, 2.0, 40, 30), Record(1, 3.0, 4, 30), Record(1, 4.0, 5, 33)]])
    seen = [(end, watermark, values) for _, _, end, watermark, _, values in outputs(run)]
    assert seen == [(10, 30, [1.0]), (10, 30, [1.0, 3.0]), (10, 33, [1.0, 3.0, 4.0])]
    assert [row[0] for row in run.out.rows] == [3, 30, 33]


def test_a_function_instead_of_an_object() -> None:
    run = driver(window_function=lambda key, window, elements: [(key, window.end, len(list(elements)))])
    run.run([[Record(1, 1.0, 1)]], upto=MAX)
    assert outputs(run) == [(1, 10, 1)]


def test_side_outputs_of_a_window_function() -> None:
    class Split:
        def process(self, key: int, context: Any, elements: Any) -> Any:
            yield OutputTag("side"), key
            yield OutputTag("nobody"), key
            yield -key

    run = driver(window_function=Split(), side_types={"side": Types.LONG()})
    run.run([[Record(7, 1.0, 1)]], upto=MAX)
    assert outputs(run) == [-7]
    assert [row for batch in run.out.sides["side"] for row in batch.rows] == [7]
    assert set(run.out.sides) == {"side"}


def test_a_function_may_return_nothing() -> None:
    run = driver(window_function=lambda key, window, elements: None)
    run.run([[Record(1, 1.0, 1)]], upto=MAX)
    assert run.out.batches == []


class Keeper:
    """Counts firings per key, and per key and window."""

    def process(self, key: int, context: Any, elements: Any) -> Any:
        counts = []
        for store in (context.global_state(), context.window_state()):
            state = store.get_state(ValueStateDescriptor("firings", Types.LONG()))
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, context.window().end, *counts

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("firings", Types.LONG())).clear()


@pytest.mark.parametrize("fresh", [True, False])
def test_state_of_the_key_and_of_the_window(fresh: bool) -> None:
    run = driver(fresh, window_function=Keeper(), allowed_lateness=20)
    run.run([[Record(1, 1.0, 1), Record(2, 1.0, 1), Record(1, 1.0, 11)]], upto=9)
    run.run([[Record(1, 1.0, 2, 9), Record(1, 1.0, 12, 9), Record(1, 1.0, 3, 25)]])
    expected = [(1, 10, 1, 1), (2, 10, 1, 1), (1, 10, 2, 2), (1, 20, 3, 1), (1, 10, 4, 3)]
    assert sorted(outputs(run)) == sorted(expected)
    run.run([], upto=MAX)
    kept = {name: sum(r.rows for r in store.runs) for name, store in run.state.stores.items()}
    assert kept["windows"] == 0


def test_window_state_is_cleared_with_the_window() -> None:
    run = driver(window_function=Keeper())
    run.run([[Record(1, 1.0, 1)]], upto=9)
    run.run([[Record(1, 1.0, 11, 9)]], upto=19)
    assert outputs(run) == [(1, 10, 1, 1), (1, 20, 2, 1)]


def test_state_of_all_keys_of_a_window_is_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    find = StateTable.find
    monkeypatch.setattr(StateTable, "find", lambda table, keys: reads.append(len(keys)) or find(table, keys))
    run = driver(window_function=Keeper(), allowed_lateness=20)
    run.run([[Record(key, 1.0, 1) for key in range(100)]], upto=9)
    assert not reads
    run.run([[Record(key, 1.0, 11, 9) for key in range(100)]], upto=19)
    assert reads == [100, 100]  # the state of the keys, and that of the keys and the window that fires
    reads.clear()
    run.run([[Record(key, 1.0, 21, 19) for key in range(100)]], upto=30)
    assert reads == [100, 200]  # once more, with those of the window that has been cleared by then


def test_list_state_in_a_window() -> None:
    class Remember:
        def process(self, key: int, context: Any, elements: Any) -> Any:
            seen = context.global_state().get_list_state(ListStateDescriptor("ends", Types.LONG()))
            seen.add(context.window().end)
            yield list(seen.get())

    run = driver(window_function=Remember())
    run.run([[Record(1, 1.0, 1), Record(1, 1.0, 11)]], upto=9)
    run.run([], upto=19)
    assert outputs(run) == [[10], [10, 20]]


class Journal:
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def process(self, key: int, context: Any, elements: Any) -> Any:
        self.calls.append(("process", key, context.window().end, len(list(elements))))
        return ()

    def clear(self, context: Any) -> None:
        self.calls.append(("clear", context.window().end, context.current_watermark()))


def test_clear_comes_with_the_firing_when_there_is_no_lateness() -> None:
    journal = Journal()
    driver(window_function=journal).run([[Record(1, 1.0, 1), Record(1, 1.0, 11)]], upto=19)
    assert journal.calls == [("process", 1, 10, 1), ("clear", 10, 19), ("process", 1, 20, 1), ("clear", 20, 19)]


class Quiet(ProcessWindowFunction):
    """Has no ``clear`` of its own."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [len(list(elements))]


class Clearing(Quiet):
    def clear(self, context: Any) -> None:
        context.window_state()


@pytest.mark.parametrize(("function", "wants"), [(Quiet(), False), (Clearing(), True), (Keeper(), True)])
def test_clear_is_called_only_where_a_function_has_its_own(
    function: Any, wants: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(WindowCall, "clear", lambda call, context: calls.append(context))
    for lateness in (0, 5):
        driver(window_function=function, allowed_lateness=lateness).run([[Record(1, 1.0, 1)]], upto=100)
    assert WindowCall(function).wants_clear is wants
    assert len(calls) == (2 if wants else 0)


def test_firings_and_clears_come_in_the_order_of_time() -> None:
    journal = Journal()
    driver(window_function=journal, allowed_lateness=12).run([[Record(1, 1.0, 1), Record(1, 1.0, 11)]], upto=100)
    assert [call[0:3] for call in journal.calls] == [
        ("process", 1, 10),  # at 9
        ("process", 1, 20),  # at 19
        ("clear", 10, 100),  # at 21
        ("clear", 20, 100),  # at 31
    ]


@pytest.mark.parametrize("fresh", [True, False])
@settings(max_examples=draws(50), deadline=None)
@given(scenario=scenarios())
def test_every_key_and_window_is_cleared_once(fresh: bool, scenario: Any) -> None:
    windows, lateness, records, cuts, kinds = scenario
    model = Model(windows.size, windows.slide, windows.offset, lateness, ranks())
    for record in records:
        model.process(record)
    model.advance(MAX - 1)
    journal = Journal()
    run = driver(fresh, assigner=assigner_of(windows), window_function=journal, allowed_lateness=lateness)
    drive(run, records, cuts, kinds)
    cleared = sorted(call[1] for call in journal.calls if call[0] == "clear")
    assert cleared == sorted(end for end, _ in model.cleared)
    assert [c[1:] for c in journal.calls if c[0] == "process"] == [(f.key, f.end, len(f.values)) for f in model.firings]


def test_rich_functions_are_opened_and_closed() -> None:
    class Rich(Journal):
        def open(self, runtime_context: Any) -> None:
            self.calls.append(("open", runtime_context.get_index_of_this_subtask()))

        def close(self) -> None:
            self.calls.append(("close",))

    rich = Rich()
    run = driver(window_function=rich)
    run.run([])
    assert run.operator is not None
    run.operator.close()
    assert rich.calls == [("open", 0), ("close",)]


class Broken:
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        raise ZeroDivisionError("in add")

    def get_result(self, accumulator: int) -> int:
        return 0

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield 1
        raise ZeroDivisionError("in process")


def fails(left: Any, right: Any) -> Any:
    raise ZeroDivisionError("in reduce")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"aggregate_function": Broken()}, "in add"),
        ({"window_function": Broken()}, "in process"),
        ({"reduce_function": fails}, r"in reduce(.|\n)*record: Row\(key=1, value=2.0\)"),
    ],
)
@pytest.mark.parametrize("lateness", [0, 100])
def test_errors_of_the_user_name_the_operator(layout: Any, message: str, lateness: int) -> None:
    run = driver(allowed_lateness=lateness, **layout)
    watermark = 50 if lateness else MIN
    with pytest.raises(UserFunctionError, match=message):
        run.run([[Record(1, 1.0, 1, watermark), Record(1, 2.0, 1, watermark)]], upto=MAX)


def test_get_result_is_the_users_code_as_well() -> None:
    class BadResult(Mean):
        def get_result(self, accumulator: Any) -> Any:
            raise KeyError("in get_result")

    run = driver(aggregate_function=BadResult())
    with pytest.raises(UserFunctionError, match="in get_result"):
        run.run([[Record(1, 1.0, 1)]], upto=MAX)


class ShownAtEnd(EventTimeTrigger):
    """Says of itself that it fires only at the end, though it may do more."""

    purges = False

    @property
    def fires_only_at_end(self) -> bool:
        return True

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        fires = super().on_element(element, timestamp, window, ctx)
        return TriggerResult.FIRE_AND_PURGE if self.purges and fires is TriggerResult.FIRE else fires


class Purging(ShownAtEnd):
    purges = True


def test_a_trigger_of_ones_own_may_say_that_it_fires_only_at_the_end() -> None:
    run = driver(trigger=ShownAtEnd(), window_function=Process(), allowed_lateness=50)
    run.run([[Record(1, 1.0, 4), Record(2, 2.0, 4), Record(1, 3.0, 4, 30)]])
    assert [(key, values) for key, *_, values in outputs(run)] == [(1, [1.0]), (2, [2.0]), (1, [1.0, 3.0])]
    assert not any(name.startswith("timers") and store.runs for name, store in run.state.stores.items())


def test_a_trigger_that_purges_does_not_fire_only_at_the_end() -> None:
    run = driver(trigger=Purging(), window_function=Process(), allowed_lateness=50)
    with pytest.raises(UserFunctionError, match=r"it purges: leave fires_only_at_end as it is, False"):
        run.run([[Record(1, 1.0, 4), Record(1, 3.0, 4, 30)]])


def test_state_is_as_it_has_always_been() -> None:
    """Savepoints of earlier versions are read as they are: kinds, columns, and the namespace of a window: its end."""
    run = driver(reduce_function=add_values, window_function=Keeper(), allowed_lateness=50)
    run.run([[Record(1, 1.0, 4), Record(1, 2.0, 14)]], upto=9)
    stored = {name: run_.batch for name, store in run.state.stores.items() for run_ in store.runs}
    assert stored["windows"].schema.names == ["window_end", "hash", "key", "value"]
    assert stored["windows"].column("window_end").to_pylist() == [10, 20]
    assert run.state.store("windows").runs[0].meta["kind"] == "window-values"
    encode = KeyEncoder(ClassRegistry()).encode
    assert stored["namespaced/firings"].column("key").to_pylist() == [encode((1, 10))]


def test_keys_are_those_of_the_user() -> None:
    codec = KeyCodec.for_type(Types.TUPLE([Types.LONG(), Types.STRING()]))
    run = driver(codec=codec, input_type=ANY, window_function=lambda key, window, elements: [key])
    run.run([[Record((1, "a"), 1.0, 1), Record((1, "b"), 1.0, 1, 50)]])
    run.run([[Record((1, "a"), 1.0, 62, 50)]])
    run.run([], upto=MAX)
    assert outputs(run) == [(1, "a"), (1, "a")]
    assert run.counters == {"numLateRecordsDropped": 1}
