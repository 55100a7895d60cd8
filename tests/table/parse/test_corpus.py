"""What Flink's parser takes is taken, and what it refuses is refused."""

from __future__ import annotations

import pytest

from headrace.table.parse import SqlParseError, parse_script
from headrace.table.parse.tree.node import children, walk
from tests.table.conformance.cases import groups, statements


def is_taken(statement: str) -> bool:
    try:
        parse_script(statement)
    except SqlParseError:
        return False
    return True


@pytest.mark.parametrize("group", groups())
def test_statements_are_taken_as_by_flink(group: str) -> None:
    seen = {statement: (case, taken) for case, statement, taken in statements(group)}
    assert [(case, text) for text, (case, taken) in seen.items() if is_taken(text) is not taken] == []


def test_the_places_of_nodes_lie_in_those_of_their_parents() -> None:
    for _, text, taken in statements("queries"):
        for statement in parse_script(text) if taken else ():
            for node in walk(statement):
                assert 0 <= node.start < node.end <= len(text)
                assert all(node.start <= child.start and child.end <= node.end for child in children(node)), text
