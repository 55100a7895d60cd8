"""Names that programs bring from PySpark and pandas: the message says what to write here."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from headrace import cep
from headrace.common import Configuration, Row, Time, Types
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError, UnknownNameError
from headrace.common.other_names import OTHER_NAMES
from headrace.datastream import StreamExecutionEnvironment, aggregates, window
from headrace.datastream.state import MapStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import coalesce, col, concat, lit, when
from tests.names.test_boundaries import public_classes

ENV = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
STREAM = ENV.from_collection([Row(user="a", n=1)], Types.ROW_NAMED(["user", "n"], [str, int]))
KEYED = STREAM.key_by("user")
WINDOWS = KEYED.window(TumblingEventTimeWindows.of(Time.seconds(1)))
ALL_WINDOWS = STREAM.window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
PARTITIONS = KEYED.full_window_partition()
NEAR: Any = KEYED.interval_join(KEYED)
JOINED: Any = STREAM.join(STREAM)
SAME_USER = JOINED.where("user").equal_to("user")
SECOND = TumblingEventTimeWindows.of(Time.seconds(1))
RULES: Any = STREAM.broadcast(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: col("n").isNull(), r"Column has no 'isNull': write is_null\(\)"),
        (lambda: (col("n") + 1).startswith("x"), r"Call has no 'startswith': write starts_with\(text\)"),
        (lambda: col("n").str.upper("x"), "Column has no 'str': its methods are those of the expression itself"),
        (lambda: col("n").fillna(0), r"write coalesce\(x, value\)"),
        (lambda: col("n").otherwise(0), r"write when\(condition\)\.then\(value\)\.otherwise\(other\)"),
        (lambda: when(col("n") > 1).otherwise(3), r"When has no 'otherwise': it wants \.then\(value\) first"),
        (lambda: STREAM.withColumn("x", col("n")), r"DataStreamSource has no 'withColumn': use select\("),
        (lambda: STREAM.groupBy("user"), r"use key_by\(\.\.\.\)"),
        (lambda: STREAM.sum("n"), r"call key_by\(\.\.\.\) first"),
        (
            lambda: STREAM.key_by("user").count(),
            r"KeyedStream has no 'count': use aggregate\(count\(\), .*; or call window\(\.\.\.\) first",
        ),
        (lambda: WINDOWS.sum("n"), r"WindowedStream has no 'sum': use aggregate\("),
        (lambda: WINDOWS.max_by("n"), r"WindowedStream has no 'max_by': use reduce\("),
        (lambda: WINDOWS.name("a"), r"WindowedStream has no 'name': say first what becomes of each window: reduce\("),
        (lambda: ALL_WINDOWS.uid("a"), r"AllWindowedStream has no 'uid': say first what becomes of each window"),
        (lambda: PARTITIONS.uid("a"), r"PartitionWindowedStream has no 'uid': say first what becomes of each part"),
        (lambda: STREAM.trigger(1), r"DataStreamSource has no 'trigger': windows have it: call it behind window\("),
        (lambda: KEYED.allowedLateness(1), r"KeyedStream has no 'allowedLateness': windows have it: call it behind"),
        (lambda: STREAM.window(1), r"call key_by\(\.\.\.\) first, or window_all\("),
        (lambda: STREAM.count_window(1), r"call key_by\(\.\.\.\) first, or count_window_all\("),
        (lambda: STREAM.time_window_all(1), r"use window_all\(TumblingEventTimeWindows\.of\("),
        (lambda: KEYED.session_window(1), r"use window\(EventTimeSessionWindows\.with_gap\(gap\)\)"),
        (lambda: KEYED.time_window(1), r"KeyedStream has no 'time_window': use window\(TumblingEventTimeWindows\.of\("),
        (lambda: STREAM.interval_join(KEYED), r"DataStreamSource has no 'interval_join': call key_by\(\.\.\.\) first"),
        (lambda: NEAR.process(1), r"IntervalJoin has no 'process': call between\(lower, upper\) first"),
        (lambda: NEAR.between(0, 1).apply(1), r"IntervalJoined has no 'apply': use process\("),
        (lambda: JOINED.window(1), r"JoinedStreams has no 'window': call where\(\.\.\.\)\.equal_to\(\.\.\.\) first"),
        (lambda: JOINED.where("user").window(1), r"Where has no 'window': call equal_to\(\.\.\.\) first"),
        (lambda: SAME_USER.apply(1), r"EqualTo has no 'apply': call window\(\.\.\.\) first"),
        (lambda: SAME_USER.window(SECOND).process(1), r"JoinedWindows has no 'process': use apply\("),
        (
            lambda: RULES.connect(STREAM),
            r"BroadcastStream has no 'connect': the other stream takes it",
        ),
        (lambda: STREAM.connect(RULES).map(1), r"say first what becomes of the records of both: process\(\.\.\.\)"),
        (lambda: ENV.sql("select 1"), r"StreamExecutionEnvironment has no 'sql': use execute_sql\(\) of a Table"),
    ],
)
def test_a_name_of_another_library_is_answered(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(UnknownNameError, match=said) as caught:
        ask()
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, HeadraceError)
    assert f"at {__file__}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("result", r"use get_job_execution_result\(\)\.result\(\)"),
        ("awaitTermination", r"use get_job_execution_result\(\)\.result\(\)"),
        ("status", r"use get_job_status\(\)\.result\(\)"),
        ("exception", r"get_job_execution_result\(\)\.exception\(\) is what"),
    ],
)
def test_a_client_is_no_future_and_no_query(name: str, said: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    with env.from_collection([1]).execute_and_collect() as records, pytest.raises(UnknownNameError, match=said):
        getattr(records.get_job_client(), name)


def test_a_condition_in_words_is_answered_by_an_expression() -> None:
    said = r"or a function, or a condition such as col\(\"amount\"\) > 10 .*, got 'n > 1'\n  at "
    with pytest.raises(InvalidTypeError, match=said):
        STREAM.filter("n > 1")  # type: ignore[arg-type]


def test_a_property_that_fails_keeps_its_error() -> None:
    class Stream(type(STREAM)):  # type: ignore[misc]
        @property
        def amount(self) -> Any:
            return object().amout  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'object' object has no attribute 'amout'") as caught:
        _ = Stream.__new__(Stream).amount
    assert not isinstance(caught.value, HeadraceError)


@pytest.mark.parametrize("owner", [col("n"), when(col("n") > 1), STREAM, WINDOWS, ENV], ids=lambda o: type(o).__name__)
def test_a_name_that_nobody_has_is_an_attribute_error(owner: Any) -> None:
    assert not hasattr(owner, "isNull")
    with pytest.raises(UnknownNameError, match=rf"^{type(owner).__name__} has no 'zyxwv'\n  at {__file__}"):
        _ = owner.zyxwv
    with pytest.raises(AttributeError, match="object has no attribute '_zyxwv'") as caught:
        _ = owner._zyxwv
    assert caught.value.name == "_zyxwv"
    assert caught.value.obj is owner


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: STREAM.keyBy("user"), r"DataStreamSource has no 'keyBy': did you mean key_by\?"),
        (lambda: STREAM.flatMap(len), r"did you mean flat_map\?"),
        (lambda: STREAM.fliter(len), r"did you mean filter\?"),
        (lambda: ENV.setParallelism(1), r"did you mean set_parallelism\?"),
        (lambda: ENV.get_config().set_paralelism(1), r"ExecutionConfig has no .*: did you mean set_parallelism"),
        (lambda: STREAM.print().map(len), r"DataStreamSink has no 'map': a sink is an end: call it of the stream"),
        (lambda: STREAM.print().Name("a"), r"DataStreamSink has no 'Name': did you mean name\?"),
    ],
)
def test_a_misspelled_name_is_told_with_what_was_meant(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        ask()


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        (aggregates, "mean", r"use avg\(column\)"),
        (aggregates, "percentile_approx", r"use approx_quantile\(column, part\)"),
        (window, "session_window", r"use EventTimeSessionWindows\.with_gap\(gap\)"),
    ],
)
def test_a_module_answers_for_names_of_other_libraries(module: ModuleType, name: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=f"has no attribute '{name}': {said}"):
        getattr(module, name)
    with pytest.raises(ImportError, match=f"{module.__name__} has no '{name}': {said}"):
        exec(f"from {module.__name__} import {name}", {})


def test_expressions_can_still_be_copied_and_pickled() -> None:
    expression = when(col("n") > 1).then(col("user")).otherwise("x")
    assert repr(pickle.loads(pickle.dumps(expression))) == repr(copy.deepcopy(expression)) == repr(expression)


def test_no_answer_hides_a_method() -> None:
    where = JOINED.where("user")
    inside = [type(each) for each in (where, where.equal_to("user"), when(col("n") > 1))]
    owners = [*public_classes(), *inside, aggregates, cep, window]
    answered = {name: owner for owner in owners if (name := owner.__name__) in OTHER_NAMES}
    assert answered.keys() == OTHER_NAMES.keys()
    of_streams = OTHER_NAMES["PartitionWindowedStream"]  # what comes behind an operator has some of them
    names = [(name, each) for name in answered for each in OTHER_NAMES[name] if each not in of_streams]
    assert [(name, each) for name, each in names if hasattr(answered[name], each)] == []


@pytest.mark.parametrize("function", [concat, coalesce])
def test_text_alone_looks_like_names_of_fields(function: Callable[..., Any]) -> None:
    name = function.__name__
    with pytest.raises(InvalidProgramError, match=rf'write {name}\(col\("a"\), col\("b"\)\) for fields, or lit\('):
        function("a", "b")
    assert repr(function(col("a"), "b")) == f'{name}(col("a"), "b")'
    assert repr(function(lit("a"), "b")) == f'{name}(lit("a"), "b")'
