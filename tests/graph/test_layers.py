"""Places of items in rows: none too close to another, lines crossing little, whatever the graph."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.graph.diagram import Item, Layers


@st.composite
def layered_graphs(draw: st.DrawFn) -> tuple[list[Item], list[tuple[int, int]]]:
    rows = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    widths = st.floats(1, 200)
    items = [
        Item(row, draw(widths), draw(st.floats(0, 30)), draw(st.booleans()))
        for row, count in enumerate(rows)
        for _ in range(count)
    ]
    possible = [(a, b) for a, b in combinations(range(len(items)), 2) if items[a].row + 1 == items[b].row]
    links = draw(st.lists(st.sampled_from(possible), max_size=12, unique=True)) if possible else []
    return items, links


def crossings(rows: list[list[int]], links: list[tuple[int, int]]) -> int:
    place = {index: at for row in rows for at, index in enumerate(row)}
    row_of = {index: number for number, row in enumerate(rows) for index in row}
    return sum(
        (place[a] - place[c]) * (place[b] - place[d]) < 0
        for (a, b), (c, d) in combinations(links, 2)
        if row_of[a] == row_of[c]
    )


@given(layered_graphs())
def test_items_of_a_row_keep_their_distance(graph: tuple[list[Item], list[tuple[int, int]]]) -> None:
    items, links = graph
    layers = Layers(items, links)
    assert sorted(index for row in layers.rows for index in row) == list(range(len(items)))
    for row in layers.rows:
        for left, right in pairwise(row):
            free = layers.centres[right] - layers.centres[left] - (items[left].width + items[right].width) / 2
            assert free >= max(items[left].gap, items[right].gap) - 1e-6
    lefts = [x - item.width / 2 for x, item in zip(layers.centres, items, strict=True)]
    assert min(lefts) == pytest.approx(0, abs=1e-6)


@given(layered_graphs())
def test_ordering_never_adds_crossings(graph: tuple[list[Item], list[tuple[int, int]]]) -> None:
    items, links = graph
    given_order: list[list[int]] = [[] for _ in range(1 + items[-1].row)]
    for index, item in enumerate(items):
        given_order[item.row].append(index)
    layers = Layers(items, links)
    assert layers._crossings() == crossings(layers.rows, links) <= crossings(given_order, links)


def test_lines_that_need_not_cross_do_not() -> None:
    items = [Item(row, 10, 5) for row in (0, 0, 0, 1, 1, 1)]
    layers = Layers(items, [(0, 5), (1, 4), (2, 3)])
    assert crossings(layers.rows, [(0, 5), (1, 4), (2, 3)]) == 0


def test_a_line_through_many_rows_runs_straight() -> None:
    items = [
        Item(0, 80, 20),
        Item(0, 80, 20),
        *(Item(row, 2, 10, is_passed=True) for row in range(1, 6)),
        Item(6, 80, 20),
    ]
    layers = Layers(items, [(1, 2), *pairwise(range(2, 8))])
    places = {round(layers.centres[index], 1) for index in range(1, 8)}
    assert len(places) == 1


def test_nothing_to_place() -> None:
    assert Layers([], []).rows == []
