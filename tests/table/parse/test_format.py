"""What is written of a tree parses to an equal tree."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.table.parse import parse_expression, parse_script, parse_statement, parse_type
from headrace.table.parse.format import sql_of
from headrace.table.parse.tree import expressions as ex
from headrace.table.parse.tree.definitions import ComputedColumn, CreateTable, CreateView, PhysicalColumn, Statement
from headrace.table.parse.tree.node import Name, QueryExpression, SqlNode
from headrace.table.parse.tree.statements import Insert, QueryStatement
from headrace.table.parse.tree.types import TypeSpec
from tests.draws import draws
from tests.table.conformance.cases import groups, statements


def parts(statement: Statement) -> Iterator[SqlNode]:
    """The nodes of a statement that can be written."""
    match statement:
        case QueryStatement() | CreateView() | Insert():
            yield statement.query
        case CreateTable():
            yield from (each.type for each in statement.elements if isinstance(each, PhysicalColumn))
            yield from (each.expression for each in statement.elements if isinstance(each, ComputedColumn))


def parsed(text: str, like: SqlNode) -> SqlNode:
    if isinstance(like, QueryExpression):
        statement = parse_statement(text)
        assert isinstance(statement, QueryStatement)
        return statement.query
    return parse_type(text) if isinstance(like, TypeSpec) else parse_expression(text)


@pytest.mark.parametrize("group", groups())
def test_statements_are_written_as_they_were_parsed(group: str) -> None:
    for text in {text: None for _, text, taken in statements(group) if taken}:
        for statement in parse_script(text):
            for part in parts(statement):
                assert parsed(sql_of(part), part) == part, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "select id,upper(item) x from bid as b where price>1 and not a group by id",
            "SELECT `id`, UPPER(`item`) AS `x`\nFROM `bid` AS `b`\nWHERE `price` > 1 AND NOT `a`\nGROUP BY `id`",
        ),
        ("VALUES 1, (2)", "VALUES ROW(1),\nROW(2)"),
        (
            "SELECT a FROM t UNION ALL (SELECT b FROM u INTERSECT SELECT 1) LIMIT 5",
            "SELECT `a`\nFROM `t`\nUNION ALL\nSELECT `b`\nFROM `u`\nINTERSECT\nSELECT 1\nFETCH NEXT 5 ROWS ONLY",
        ),
        (
            "(SELECT 1 UNION SELECT 2) INTERSECT SELECT 3",
            "(SELECT 1\nUNION\nSELECT 2)\nINTERSECT\nSELECT 3",
        ),
    ],
)
def test_a_clause_is_a_line(text: str, expected: str) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, QueryStatement)
    assert sql_of(statement.query) == expected
    assert parsed(expected, statement.query) == statement.query


NOWHERE = {"start": 0, "end": 0}
NAMES = st.sampled_from(["a", "select", "x`y", "é"]).map(lambda text: Name(text, **NOWHERE))
LEAVES = (
    st.lists(NAMES, min_size=1, max_size=2).map(lambda names: ex.Identifier(tuple(names), **NOWHERE))
    | st.integers(0, 10**30).map(lambda value: ex.IntegerLiteral(value, **NOWHERE))
    | st.decimals(0, 10**20, places=3).map(lambda value: ex.DecimalLiteral(value, **NOWHERE))
    | st.text("a'\\\n", max_size=4).map(lambda value: ex.StringLiteral(value, **NOWHERE))
    | st.binary(max_size=3).map(lambda value: ex.BinaryLiteral(value, **NOWHERE))
    | st.sampled_from([None, True, False]).map(lambda value: ex.BooleanLiteral(value, **NOWHERE))
)


def grown(inner: st.SearchStrategy[ex.SqlExpression]) -> st.SearchStrategy[ex.SqlExpression]:
    """Expressions that are made of others."""
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    more = st.lists(inner, min_size=2, max_size=3).map(tuple)
    flag = st.booleans()
    at = {name: st.just(value) for name, value in NOWHERE.items()}
    return st.one_of(
        st.builds(ex.Unary, st.sampled_from(ex.UnaryOperator), inner, **at),
        st.builds(ex.Binary, st.sampled_from([*ex.BinaryOperator][:20]), inner, inner, **at),
        st.builds(ex.Logical, flag, more, **at),
        st.builds(ex.IsTest, inner, st.sampled_from(ex.OperandTest), flag, **at),
        st.builds(ex.Between, inner, inner, inner, flag, flag, **at),
        st.builds(ex.Like, st.sampled_from(ex.LikeKind), inner, inner, st.none() | inner, flag, **at),
        st.builds(ex.InList, inner, some, flag, **at),
        st.builds(ex.ItemAccess, inner, inner, **at),
        st.builds(ex.SqlFieldAccess, inner, NAMES, **at),
        st.builds(ex.RowConstructor, more, flag, **at),
        st.builds(ex.CollectionConstructor, st.sampled_from(ex.ConstructorKind), some, **at),
        st.builds(
            ex.CaseExpression,
            st.none(),
            st.builds(ex.CaseBranch, st.tuples(inner), inner, **at).map(lambda when: (when,)),
            st.none() | inner,
            **at,
        ),
    )


@example(ex.Unary(ex.UnaryOperator.NOT, ex.IntegerLiteral(0, **NOWHERE), **NOWHERE))
@given(st.recursive(LEAVES, grown, max_leaves=8))
@settings(max_examples=draws(150), deadline=None)
def test_any_expression_is_written_as_it_is(tree: ex.SqlExpression) -> None:
    assert parse_expression(sql_of(tree)) == tree, sql_of(tree)
