"""Timers where there are no keys are told when the program is built, where it is certain; never otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Types
from headrace.common.errors import InvalidProgramError
from headrace.datastream import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Process(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []


class CoProcess(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return []

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return []


class Broadcast(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return []


class KeyedBroadcast(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return []


def build(function: Any) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    texts, others = env.from_collection(["a"], str), env.from_collection(["a"], str)
    if isinstance(function, ProcessFunction):
        return texts.process(function, output_type=str)
    if isinstance(function, CoProcessFunction):
        return texts.connect(others).process(function, output_type=str)
    records = texts if isinstance(function, BroadcastProcessFunction) else texts.key_by(lambda text: text, key_type=str)
    return records.connect(others.broadcast(RULES)).process(function, output_type=str)


class Sets(Process):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value:
            value = None
        ctx.timer_service().register_event_time_timer(1)
        yield value


class DeletesByName(CoProcess):
    def process_element2(self, value: Any, context: Any) -> Any:
        timers = context.timer_service()
        timers.delete_processing_time_timer(1)
        yield value


class SetsForRecords(Broadcast):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [ctx.timer_service().register_processing_time_timer(1)]


class SetsForRules(KeyedBroadcast):
    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(1)
        return []


@pytest.mark.parametrize(
    ("kind", "method", "line", "said"),
    [
        (Sets, "process_element", 3, "timers belong to keys: call key_by.* first"),
        (DeletesByName, "process_element2", 2, "timers belong to keys: call key_by.* of the connected streams first"),
        (SetsForRecords, "process_element", 1, r"timers belong to keys: call key_by\(...\) before connect"),
        (SetsForRules, "process_broadcast_element", 1, "the broadcast stream have no key: timers are set in process_e"),
    ],
)
def test_it_is_told_with_its_line(kind: Any, method: str, line: int, said: str) -> None:
    first = getattr(kind, method).__code__.co_firstlineno
    with pytest.raises(InvalidProgramError, match=f"^{method} .*: .*{said}(.|\n)* in build$") as told:
        build(kind())
    assert f"test_timer_misuse.py:{first + line}): " in str(told.value)


@pytest.mark.parametrize("base", [Process, CoProcess, Broadcast])
def test_a_method_for_timers_that_nobody_would_call(base: Any) -> None:
    class Waits(base):  # type: ignore[misc]
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            return []

    with pytest.raises(InvalidProgramError, match=r"^Waits has timers, which belong to keys: call"):
        build(Waits())


def test_which_stream_lacks_keys() -> None:
    class Waits(CoProcess):
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            return []

    env = StreamExecutionEnvironment.get_execution_environment()
    first, second = env.from_collection(["a"], str), env.from_collection(["a"], str)
    with pytest.raises(InvalidProgramError, match="the second stream has none, so call its key_by"):
        first.key_by(lambda text: text).connect(second).process(Waits())
    with pytest.raises(InvalidProgramError, match="the first stream has none, so call its key_by"):
        first.connect(second.key_by(lambda text: text)).process(Waits())


class OnCondition(Process):
    """One function for streams with and without keys."""

    def __init__(self, waits: bool) -> None:
        self.waits = waits

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.waits:
            ctx.timer_service().register_event_time_timer(1)
        yield ctx.timer_service().current_watermark()


class Tries(Process):
    def process_element(self, value: Any, ctx: Any) -> Any:
        try:
            ctx.timer_service().register_event_time_timer(1)
        except InvalidProgramError:
            yield value


class OtherTimers(Process):
    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        timers = value.timers or timers
        timers.register_event_time_timer(1)
        value.timer_service().register_event_time_timer(1)
        yield value


@pytest.mark.parametrize("function", [OnCondition(False), Tries(), OtherTimers(), KeyedBroadcast()])
def test_what_need_not_fail_is_not_refused(function: Any) -> None:
    assert build(function).get_type() == Types.STRING()
