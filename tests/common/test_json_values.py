"""Values of declared types in JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from headrace.common.json_values import from_json, to_json


class Place(NamedTuple):
    name: str
    number: int = 0


@dataclass(frozen=True)
class Journey:
    places: tuple[Place, ...]
    by_place: Mapping[Place, tuple[int, Place]]
    by_name: dict[str, Place | None]
    content: bytes | None
    kept: list[list[int]]
    other: Any = None


HERE, THERE = Place("here"), Place("there", 2)


@pytest.mark.parametrize(
    "journey",
    [
        Journey((), {}, {}, None, []),
        Journey((HERE, THERE), {HERE: (1, THERE)}, {"a": HERE, "b": None}, b"\x00\xff", [[1], []], {"any": [1, None]}),
    ],
)
def test_what_is_written_is_read(journey: Journey) -> None:
    assert from_json(Journey, json.loads(json.dumps(to_json(journey)))) == journey


@pytest.mark.parametrize(
    "damaged", [[], [[["here", 1, 2]], [], {}, None, [], None], 5, {"places": []}, [1, [], {}, None, [], None]]
)
def test_what_is_damaged_is_refused(damaged: object) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        from_json(Journey, damaged)


def test_a_type_within_others() -> None:
    assert from_json(list[Place], [["here", 1]]) == [Place("here", 1)]
