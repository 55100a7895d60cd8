"""What Flink's parser takes is taken, and what it refuses is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.table.parse import SqlParseError, parse_script
from headrace.table.parse.tree.node import children, walk
from tests.table.conformance.cases import groups, statements

HERE = Path(__file__).parent


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


def test_statements_of_all_kinds_are_taken_as_written_down() -> None:
    """Each line says who takes a statement: ``both`` parsers, ``none``, ``Flink`` alone, or it is taken ``here`` alone.

    Flink's answers are those of its parser of 2.3. What only it takes, it refuses later, or it is of other dialects
    (escapes of JDBC, sequences, ``PERIOD``); what only is taken here, its grammar refuses by accident,
    or it goes beyond Flink.
    """
    lines = (HERE / "flink_parser.tsv").read_text().splitlines()
    for taken_by, text in (line.split("\t", 1) for line in lines):
        assert is_taken(text.replace("\\n", "\n")) is (taken_by in ("both", "here")), text
