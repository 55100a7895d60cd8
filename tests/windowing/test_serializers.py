"""Windows as bytes and as namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.serializer import TypeSerializer
from headrace.state.keyed.namespaces import namespace_of, ordered_bytes
from headrace.windowing.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    window_serializer,
)
from tests.draws import draws

LONGS = st.integers(-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Word(Window):
    text: str

    def max_timestamp(self) -> int:
        return len(self.text)


class Words(TypeSerializer[Word]):
    def serialize(self, element: Word, stream: BytesIO) -> None:
        stream.write(element.text.encode())

    def deserialize(self, stream: BytesIO) -> Word:
        return Word(stream.read().decode())


GIVEN: list[tuple[TypeSerializer[Any], st.SearchStrategy[Any]]] = [
    (TimeWindowSerializer(), st.builds(TimeWindow, LONGS, LONGS)),
    (CountWindowSerializer(), st.builds(CountWindow, LONGS)),
    (GlobalWindowSerializer(), st.builds(GlobalWindow)),
    (Words(), st.builds(Word, st.text())),
]


@pytest.mark.parametrize(("serializer", "windows"), GIVEN, ids=lambda each: repr(each)[:20])
def test_windows_come_back(serializer: TypeSerializer[Any], windows: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=draws(100), deadline=None)
    @given(windows)
    def check(window: Window) -> None:
        stream = BytesIO()
        serializer.serialize(window, stream)
        assert serializer.deserialize(BytesIO(stream.getvalue())) == window
        known = window_serializer(serializer)
        assert known.window_of(known.namespace_of(window)) == window
        assert namespace_of(ordered_bytes(known.namespace_of(window))) == known.namespace_of(window)

    check()


def test_namespaces_of_built_in_windows_are_short() -> None:
    assert TimeWindowSerializer().namespace_of(TimeWindow(-5, 5)) == (-5, 5)
    assert CountWindowSerializer().namespace_of(CountWindow(7)) == 7
    assert GlobalWindowSerializer().namespace_of(GlobalWindow()) == 0
    assert window_serializer(Words()).namespace_of(Word("é")) == b"\xc3\xa9"


def test_serializers_of_one_class_with_equal_attributes_are_equal() -> None:
    assert Words() == Words()
    assert hash(Words()) == hash(Words())
    assert Words() != TimeWindowSerializer()
    assert repr(Words()) == "Words()"
