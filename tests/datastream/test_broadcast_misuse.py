"""Misuse of broadcast state is told when the program is built, with the line, where it is certain; never otherwise."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.errors import InvalidProgramError
from headrace.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OTHERS = MapStateDescriptor("others", Types.STRING(), Types.LONG())
OF_LONGS = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
TOTAL = ValueStateDescriptor("total", Types.LONG())
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Fine(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put("a", 1)
        return []


def build(function: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    rules = env.from_collection([("a", 1)], PAIR).broadcast(RULES)
    env.from_collection([("a", 1)], PAIR).key_by("f0").connect(rules).process(function, output_type=str)


class AsksForAnother(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if ctx.timestamp():
            value = None
        yield (
            value,
            ctx.get_broadcast_state(OTHERS).get("a"),
        )


class AsksForOtherTypes(Fine):
    def process_broadcast_element(self, value: Any, context: Any) -> Any:
        for name in context.get_broadcast_state(OF_LONGS):
            yield name, value


class AsksForAnotherKind(Fine):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        total = ctx.get_broadcast_state(TOTAL)
        return [total]


class AsksByAttribute(Fine):
    of_class = OTHERS

    def __init__(self) -> None:
        self.descriptor = self.of_class

    def process_element(self, value: Any, ctx: Any) -> Any:
        return [ctx.get_broadcast_state(self.descriptor).get("a")]


class Puts(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value:
            ctx.get_broadcast_state(RULES).put("a", 1)
        return []


class PutsByName(Fine):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        if timestamp:
            rules["a"] = 1
        return []


class Deletes(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        del ctx.get_broadcast_state(RULES)["a"]
        return []


class AsksByName(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [ctx.get_broadcast_state("rules").get("a")]


RULES_BY_NAME = "rules"


class AsksByNameOfModule(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_broadcast_state(RULES_BY_NAME).get("a")


def asks_by_closure() -> Any:
    declared = MapStateDescriptor("closed over", Types.STRING(), Types.LONG())

    class AsksByClosure(Fine):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return [ctx.get_broadcast_state(declared).get("a")]

    return AsksByClosure


@pytest.mark.parametrize(
    ("kind", "method", "line", "said"),
    [
        (AsksForAnother, "process_element", 5, "the broadcast state 'others' was not declared: .* which has 'rules'"),
        (AsksForOtherTypes, "process_broadcast_element", 1, "'rules' is .*String, Long.*, and not .*Long, Long"),
        (AsksForAnotherKind, "on_timer", 1, "takes a MapStateDescriptor, not"),
        (
            AsksByName,
            "process_element",
            1,
            r"not 'rules': give it one of broadcast\(...\), which has 'rules'",
        ),
        (AsksByNameOfModule, "process_element", 1, "takes a MapStateDescriptor, not 'rules'"),
        (AsksByAttribute, "process_element", 1, "'others' was not declared"),
        (asks_by_closure(), "process_element", 1, "'closed over' was not declared"),
        (Puts, "process_element", 2, "is changed in process_broadcast_element alone"),
        (PutsByName, "on_timer", 3, "is changed in process_broadcast_element alone"),
        (Deletes, "process_element", 1, "is changed in process_broadcast_element alone"),
    ],
)
def test_it_is_told_with_its_line(kind: Any, method: str, line: int, said: str) -> None:
    first = getattr(kind, method).__code__.co_firstlineno
    with pytest.raises(InvalidProgramError, match=f"^{method} .*: .*{said}(.|\n)* in build$") as told:
        build(kind())
    assert f"test_broadcast_misuse.py:{first + line}): " in str(told.value)


class OnCondition(Fine):
    """One function for two programs: which of the states is declared, its argument says."""

    def __init__(self, others: bool) -> None:
        self.others = others

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.others:
            return [ctx.get_broadcast_state(OTHERS).get(value)]
        found = self.others and ctx.get_broadcast_state(OTHERS).get(value)
        other = ctx.get_broadcast_state(OTHERS) if self.others else None
        return [found, other]


class LeavesBefore(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if not value:
            return []
        return [ctx.get_broadcast_state(OTHERS).get(value)]


class SetLater(Fine):
    def __init__(self) -> None:
        self.descriptor = OTHERS

    def open(self, runtime_context: Any) -> None:
        self.descriptor = RULES

    def process_element(self, value: Any, ctx: Any) -> Any:
        return [ctx.get_broadcast_state(self.descriptor).get("a")]


class OfItsOwn(Fine):
    """What looks like the context is something else, and so is what looks like a descriptor or a state."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        OTHERS = RULES  # hides the one of the module
        found = ctx.get_broadcast_state(OTHERS)
        found = {**dict(found.items())}
        found["a"] = 1
        value.get_broadcast_state(OTHERS).put("a", 1)
        return [found]

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        ctx = self.own(ctx)
        ctx.get_broadcast_state(OTHERS).put("a", 1)
        return []

    def own(self, ctx: Any) -> Any:
        return ctx


class BothSides(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if hasattr(ctx, "apply_to_keyed_state"):
            ctx.get_broadcast_state(RULES).put("a", 1)
        return []

    process_broadcast_element = process_element


class ByLambda(Fine):
    def process_element(self, value: Any, ctx: Any) -> Any:
        later = lambda: ctx.get_broadcast_state(OTHERS).put("a", 1)  # noqa: E731 # it is never called
        return [later is None]


def of_exec() -> Any:
    """A class whose source cannot be read."""
    names = {**globals()}
    exec(inspect.getsource(Puts).replace("class Puts", "class Made"), names)
    return names["Made"]


@pytest.mark.parametrize(
    "function", [Fine(), OnCondition(False), LeavesBefore(), SetLater(), OfItsOwn(), BothSides(), ByLambda()]
)
def test_there_is_no_false_alarm(function: Any) -> None:
    build(function)


def test_what_cannot_be_read_is_left_to_the_running_job() -> None:
    build(of_exec()())
