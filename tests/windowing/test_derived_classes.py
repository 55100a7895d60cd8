"""Classes of a program that are derived from built-in ones: what makes the built-in ones makes them."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from headrace.datastream import window

NEVER = window.NeverTrigger()

MADE: list[tuple[type, str, tuple[Any, ...]]] = [
    (window.TumblingEventTimeWindows, "of", (10, 3)),
    (window.TumblingProcessingTimeWindows, "of", (10,)),
    (window.SlidingEventTimeWindows, "of", (10, 5)),
    (window.SlidingProcessingTimeWindows, "of", (10, 5, 1)),
    (window.CumulatingEventTimeWindows, "of", (10, 5)),
    (window.EventTimeSessionWindows, "with_gap", (10,)),
    (window.ProcessingTimeSessionWindows, "with_gap", (10,)),
    (window.DynamicEventTimeSessionWindows, "with_dynamic_gap", (len,)),
    (window.DynamicProcessingTimeSessionWindows, "with_dynamic_gap", (len,)),
    (window.GlobalWindows, "create", ()),
    (window.GlobalWindows, "create_with_end_of_stream_trigger", ()),
    (window.CountTumblingWindowAssigner, "of", (3,)),
    (window.CountSlidingWindowAssigner, "of", (3, 2)),
    (window.EventTimeTrigger, "create", ()),
    (window.ProcessingTimeTrigger, "create", ()),
    (window.EndOfStreamTrigger, "create", ()),
    (window.ContinuousEventTimeTrigger, "of", (10,)),
    (window.ContinuousProcessingTimeTrigger, "of", (10,)),
    (window.CountTrigger, "of", (3,)),
    (window.DeltaTrigger, "of", (1.0, max)),
    (window.PurgingTrigger, "of", (NEVER,)),
    (window.ProcessingTimeoutTrigger, "of", (NEVER, 10)),
    (window.CountEvictor, "of", (3,)),
    (window.TimeEvictor, "of", (10,)),
    (window.DeltaEvictor, "of", (1.0, max)),
]


@pytest.mark.parametrize(("base", "maker", "arguments"), MADE, ids=lambda each: getattr(each, "__name__", None))
def test_what_makes_a_built_in_class_makes_a_derived_one(base: type, maker: str, arguments: tuple[Any, ...]) -> None:
    derived = type(f"My{base.__name__}", (base,), {})
    made, built_in = getattr(derived, maker)(*arguments), getattr(base, maker)(*arguments)
    assert (type(made), type(built_in)) == (derived, base)
    assert made == getattr(derived, maker)(*arguments) != built_in
    assert str(made).startswith(f"My{base.__name__}")
    assert built_in == pickle.loads(pickle.dumps(built_in))


@pytest.mark.parametrize("values", [(window.TimeWindow, 3, 9), (window.CountWindow, 2), (window.GlobalWindow,)])
def test_windows_of_derived_classes_may_have_fields_of_their_own(values: tuple[Any, ...]) -> None:
    base, *own = values

    class Tagged(base):  # type: ignore[misc]
        def __init__(self, tag: str) -> None:
            super().__init__(*own)
            self.tag = tag

    made = Tagged("first")
    made.tag = "second"
    assert made.tag == "second"
    del made.tag
    assert not hasattr(made, "tag")
    for field in fields(base):
        for unchanged in (made, base(*own)):
            with pytest.raises(FrozenInstanceError, match=f"the field '{field.name}' of a window cannot be changed"):
                setattr(unchanged, field.name, 0)
            with pytest.raises(FrozenInstanceError, match=f"the field '{field.name}' of a window cannot be changed"):
                delattr(unchanged, field.name)
    with pytest.raises(FrozenInstanceError):
        base(*own).tag = "none"
    assert pickle.loads(pickle.dumps(base(*own))) == base(*own)


def test_an_argument_that_is_missing_is_told_with_the_class_that_was_called() -> None:
    class MyWindows(window.SlidingEventTimeWindows):
        pass

    for windows in (window.SlidingEventTimeWindows, window.SlidingProcessingTimeWindows, MyWindows):
        with pytest.raises(TypeError, match=rf"^{windows.__name__}\.of\(\) missing 1 required .* 'slide'$"):
            windows.of(10)  # type: ignore[call-arg]


@pytest.mark.parametrize(("base", "maker", "arguments"), MADE, ids=lambda each: getattr(each, "__name__", None))
def test_derived_classes_may_have_fields_of_their_own(base: Any, maker: str, arguments: tuple[Any, ...]) -> None:
    class Named(base):  # type: ignore[misc]
        def named(self, name: str) -> Named:
            self.name = name
            return self

    made = getattr(Named, maker)(*arguments).named("mine")
    assert made.name == "mine"
    for each in (made, getattr(base, maker)(*arguments)):
        for field in fields(base):
            with pytest.raises(FrozenInstanceError):
                setattr(each, field.name, None)
    if fields(base):
        with pytest.raises(FrozenInstanceError):
            getattr(base, maker)(*arguments).name = "mine"
