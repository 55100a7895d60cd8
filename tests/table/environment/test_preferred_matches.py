"""Random patterns beyond Flink's beside a matcher that tries one way after the other, in any division into epochs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.common.errors import HeadraceError
from headrace.table import EnvironmentSettings, TableEnvironment
from tests.table.conformance import oracle, replay
from tests.table.environment.test_match_recognize import TICKS

Path = list[tuple[str, int]]
"""The variables of a way with the rows that they take."""


@dataclass
class Part:
    """A part of a pattern: its text, and its ways from a row on, in the order of preference."""

    text: str
    ways: Callable[[Search, int, Path], Iterator[tuple[int, Path]]]


@dataclass
class Search:
    """The rows of a partition, of which one begins a match."""

    times: Sequence[int]
    values: Sequence[int]
    begin: int
    window: int

    def takes(self, variable: str, row: int, path: Path) -> bool:
        in_time = not self.window or self.times[row] - self.times[self.begin] < self.window
        return in_time and CONDITIONS[variable][1](self.values, row, path)


def last(path: Path, variable: str) -> int | None:
    return next((row for name, row in reversed(path) if name == variable), None)


def rises(values: Sequence[int], row: int, path: Path) -> bool:
    return row > 0 and values[row] > values[row - 1]


def is_above_a(values: Sequence[int], row: int, path: Path) -> bool:
    before = last(path, "A")
    return before is not None and values[row] >= values[before]


def is_small_in_sum(values: Sequence[int], row: int, path: Path) -> bool:
    return sum(values[each] for name, each in path if name == "D") + values[row] < 9


CONDITIONS: dict[str, tuple[str, Callable[[Sequence[int], int, Path], bool]]] = {
    "A": ("A.px < 5", lambda values, row, path: values[row] < 5),
    "B": ("B.px > PREV(B.px)", rises),
    "C": ("C.px >= LAST(A.px)", is_above_a),
    "D": ("SUM(D.px) < 9", is_small_in_sum),
    "E": ("", lambda values, row, path: True),
    "F": ("F.px > 1 AND F.px <= 6", lambda values, row, path: 1 < values[row] <= 6),
}


def variable(name: str) -> Part:
    def ways(search: Search, row: int, path: Path) -> Iterator[tuple[int, Path]]:
        if row < len(search.values) and search.takes(name, row, path):
            yield row + 1, [*path, (name, row)]

    return Part(name, ways)


def sequence(parts: list[Part]) -> Part:
    def ways(search: Search, row: int, path: Path, at: int = 0) -> Iterator[tuple[int, Path]]:
        if at == len(parts):
            yield row, path
            return
        for reached, taken in parts[at].ways(search, row, path):
            yield from ways(search, reached, taken, at + 1)

    return Part(f"({' '.join(part.text for part in parts)})", ways)


def alternatives(parts: list[Part]) -> Part:
    def ways(search: Search, row: int, path: Path) -> Iterator[tuple[int, Path]]:
        for part in parts:
            yield from part.ways(search, row, path)

    return Part(f"({' | '.join(part.text for part in parts)})", ways)


def repeated(part: Part, least: int, most: int | None, *, is_reluctant: bool) -> Part:
    def ways(search: Search, row: int, path: Path, rounds: int = 0) -> Iterator[tuple[int, Path]]:
        if rounds >= least and is_reluctant:
            yield row, path
        if most is None or rounds < most:
            for reached, taken in part.ways(search, row, path):
                if reached > row or rounds < least:
                    yield from ways(search, reached, taken, rounds + 1)
        if rounds >= least and not is_reluctant:
            yield row, path

    return Part(f"({part.text}){{{least},{'' if most is None else most}}}{'?' * is_reluctant}", ways)


def drawn(draw: random.Random, depth: int = 0) -> Part:
    kind = draw.choice(["variable", "variable", "sequence", "alternatives", "repeated", "repeated"])
    if depth > 2 or kind == "variable":
        return variable(draw.choice("ABCDEF"))
    if kind == "repeated":
        least = draw.choice([0, 0, 1, 1, 2])
        most = draw.choice([None, None, max(least, 1), least + 1, least + 2])
        return repeated(drawn(draw, depth + 1), least, most, is_reluctant=draw.random() < 0.4)
    parts = [drawn(draw, depth + 1) for _ in range(draw.choice([2, 2, 3]))]
    return sequence(parts) if kind == "sequence" else alternatives(parts)


def matches(
    pattern: Part, times: Sequence[int], values: Sequence[int], window: int, skip: str
) -> Iterator[tuple[int, Path]]:
    """The matches of a partition, as SQL:2016 says: with which row each begins, and its rows."""
    begin = 0
    while begin < len(values):
        found = next(pattern.ways(Search(times, values, begin, window), begin, []), None)
        if found is None:
            begin += 1
            continue
        reached, path = found
        yield begin, path
        if not path or skip == "TO NEXT ROW":
            begin += 1
        elif skip == "PAST LAST ROW":
            begin = reached
        else:
            name = skip.rsplit(maxsplit=1)[-1]
            rows = [row for each, row in path if each == name]
            if not rows:
                raise LookupError("No such element")
            begin, before = rows[0 if "FIRST" in skip else -1], begin
            if begin == before:
                raise LookupError("first element of a match")


def expected(pattern: Part, given: list[Any], window: int, skip: str) -> dict[str, list[Any]]:
    found = {}
    for key in "xy":
        rows = sorted((row for row in given if row[0] == key), key=lambda row: row[3])
        times, values = [int(row[3][-2:]) + 60 * int(row[3][-5:-3]) for row in rows], [row[1] for row in rows]
        found[key] = [
            (number, rows[row][2], name)
            for number, (begin, path) in enumerate(matches(pattern, times, values, window, skip), 1)
            for name, row in (path or [(None, begin)])
        ]
    return found


def told(pattern: Part, given: list[Any], window: int, skip: str, *, one_by_one: bool) -> dict[str, list[Any]]:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in replay._ALWAYS.items():
        tables.get_config().set(key, value)
    tables.execute_sql(TICKS)
    oracle.begin([["tick", "+I", row] for row in given], one_by_one=one_by_one)
    within = f"WITHIN INTERVAL '{window}' SECOND" if window else ""
    named = [f"{name} AS {text}" for name, (text, _) in CONDITIONS.items() if text]
    clauses = (
        "PARTITION BY sym ORDER BY ts MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c ALL ROWS PER MATCH "
        f"AFTER MATCH SKIP {skip} PATTERN ({pattern.text}) {within} DEFINE {', '.join(named)}, Z AS PREV(px) > 0"
    )
    rows = list(tables.execute_sql(f"SELECT sym, n, vol, c FROM tick MATCH_RECOGNIZE ({clauses})").collect())
    return {key: [tuple(row)[1:] for row in rows if row[0] == key] for key in "xy"}


def compare(seed: int) -> int:
    draw = random.Random(seed)
    pattern, second, given = drawn(draw), 0, []
    for number in range(draw.choice([8, 16, 24])):
        second += draw.choice([0, 1, 1, 2])
        given.append(
            [draw.choice("xy"), draw.randrange(8), number, f"2024-05-01 10:{second // 60:02}:{second % 60:02}"]
        )
    window = draw.choice([0, 0, 3, 6])
    skip = draw.choice(["TO NEXT ROW", "PAST LAST ROW", "PAST LAST ROW", f"TO {draw.choice(['FIRST', 'LAST'])} B"])
    if "B" in skip and "B" not in pattern.text:
        skip = "TO NEXT ROW"
    shown = f"{seed}: {pattern.text} within {window} skip {skip}"
    try:
        wanted = expected(pattern, given, window, skip)
    except LookupError as error:
        with pytest.raises(HeadraceError, match=str(error)):
            told(pattern, given, window, skip, one_by_one=False)
        return 0
    assert told(pattern, given, window, skip, one_by_one=seed % 2 == 0) == wanted, shown
    return sum(map(len, wanted.values()))


def test_random_patterns_find_what_is_preferred() -> None:
    assert sum(map(compare, range(12))) > 20


@pytest.mark.slow
def test_many_random_patterns_find_what_is_preferred() -> None:
    assert sum(map(compare, range(12, 300))) > 500


@pytest.mark.parametrize("within", ["", "WITHIN INTERVAL '1' HOUR"])
def test_the_end_of_the_input_decides_in_processing_time(within: str) -> None:
    found = []
    for one_by_one in (False, True):
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        for key, value in replay._ALWAYS.items():
            tables.get_config().set(key, value)
        tables.execute_sql("CREATE TABLE tick (sym STRING, px INT, pt AS PROCTIME()) WITH ('connector' = 'oracle')")
        oracle.begin([["tick", "+I", ["x", price]] for price in (4, 2, 3, 5, 1, 6)], one_by_one=one_by_one)
        clauses = f"MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c ALL ROWS PER MATCH {{}} PATTERN (A B+) {within}"
        skip = "AFTER MATCH SKIP PAST LAST ROW"
        query = (
            f"SELECT px, n, c FROM tick MATCH_RECOGNIZE (ORDER BY pt {clauses.format(skip)} DEFINE B AS px > PREV(px))"
        )
        found.append([tuple(row) for row in tables.execute_sql(query).collect()])
    assert found[0] == found[1] == [(2, 1, "A"), (3, 1, "B"), (5, 1, "B"), (1, 2, "A"), (6, 2, "B")]
