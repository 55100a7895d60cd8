"""What the jobs of a chain of topics do, and what its test knows of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from headrace.common import Types
from headrace.common.serialization import SerializationSchema
from headrace.datastream import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor

PARTITIONS: Final = 4
KEYS: Final = 16
"""A multiple of the number of partitions: the records of a key are in one partition, in order."""


def key_of(text: str) -> int:
    """The key of a record: of the number that it begins with."""
    return int(text.split(maxsplit=1)[0]) % KEYS


class Numbering(KeyedProcessFunction):
    """Numbers the records of each key, in keyed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield f"{value} {seen}"


class Key(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return b"%d" % key_of(element)


def check_chain(written: Iterable[str], found: Iterable[str]) -> None:
    """Each number that was written is there once, and both jobs have counted those of its key in their order."""
    numbers = sorted(map(int, written))
    of_keys: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for text in found:
        of_keys[key_of(text)].append(tuple(map(int, text.split())))
    for key in range(KEYS):
        expected = [number for number in numbers if number % KEYS == key]
        counted = [(number, place, place) for place, number in enumerate(expected, 1)]
        assert of_keys[key] == counted, f"key {key}"
