"""Operators bind as in Calcite's table, and forms have the parts that they were written with."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.table.parse import parse_expression, parse_type
from headrace.table.parse.tree.expressions import (
    Between,
    Binary,
    BinaryOperator,
    BooleanLiteral,
    BoundKind,
    CaseExpression,
    CastExpression,
    CollectionConstructor,
    DecimalLiteral,
    Descriptor,
    DoubleLiteral,
    Exists,
    Identifier,
    InList,
    InQuery,
    IntegerLiteral,
    IntervalExpression,
    IntervalLiteral,
    IsTest,
    ItemAccess,
    Like,
    Logical,
    NamedArgument,
    NullLiteral,
    OperandTest,
    Over,
    OverWindow,
    Quantified,
    RowConstructor,
    ScalarQuery,
    SetQuantifier,
    SqlCall,
    SqlExpression,
    SqlFieldAccess,
    Star,
    StringLiteral,
    TableArgument,
    Trim,
    TrimSide,
    Unary,
    UnitArgument,
    WindowFrame,
)
from headrace.table.parse.tree.json import JsonBehaviorKind, JsonObject, JsonPathCall
from headrace.table.parse.tree.types import (
    AtomicTypeSpec,
    CollectionTypeSpec,
    MapTypeSpec,
    NamedTypeSpec,
    RowTypeSpec,
    TimeUnit,
    TypeSpec,
    TypeWord,
)


def grouped(node: SqlExpression) -> str:  # noqa: C901, PLR0911
    """The expression with parentheses around all that binds."""
    match node:
        case Identifier() | IntegerLiteral() | StringLiteral():
            return str(node) if isinstance(node, Identifier) else str(node.value)
        case Unary():
            return f"({node.operator.value} {grouped(node.operand)})"
        case Binary():
            return f"({grouped(node.left)} {node.operator.value} {grouped(node.right)})"
        case Logical():
            return f"({(' AND ' if node.is_and else ' OR ').join(map(grouped, node.operands))})"
        case IsTest():
            return f"({grouped(node.operand)} IS{' NOT' * node.negated} {node.test.value})"
        case Between():
            return f"({grouped(node.operand)} BETWEEN {grouped(node.low)}, {grouped(node.high)})"
        case Like():
            return f"({grouped(node.operand)} {node.kind.value} {grouped(node.pattern)})"
        case InList():
            return f"({grouped(node.operand)} IN {', '.join(map(grouped, node.items))})"
        case ItemAccess():
            return f"{grouped(node.operand)}[{grouped(node.index)}]"
        case SqlFieldAccess():
            return f"{grouped(node.operand)}.{node.name}"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a OR b AND c OR d", "(a OR (b AND c) OR d)"),
        ("NOT a AND b", "((NOT a) AND b)"),
        ("NOT a = b", "(NOT (a = b))"),
        ("NOT a IS NULL", "(NOT (a IS NULL))"),
        ("a = b IS NOT TRUE", "((a = b) IS NOT TRUE)"),
        ("a = b = c", "((a = b) = c)"),
        ("a < b + c", "(a < (b + c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a + b * c - d / e % f", "((a + (b * c)) - ((d / e) % f))"),
        ("a || b + c", "((a || b) + c)"),
        ("a * b || c", "((a * b) || c)"),
        ("- a * b", "((- a) * b)"),
        ("- - a", "(- (- a))"),
        ("a - - b", "(a - (- b))"),
        ("- a[1]", "(- a[1])"),
        ("a[1].b.c[2]", "a[1].b.c[2]"),
        ("a BETWEEN b + 1 AND c AND d", "((a BETWEEN (b + 1), c) AND d)"),
        ("a BETWEEN b AND c OR d", "((a BETWEEN b, c) OR d)"),
        ("a LIKE b || c AND d", "((a LIKE (b || c)) AND d)"),
        ("a LIKE b = c", "((a LIKE b) = c)"),
        ("a LIKE b LIKE c", "(a LIKE (b LIKE c))"),
        ("a BETWEEN b AND c LIKE d", "(a BETWEEN b, (c LIKE d))"),
        ("a IN (b, c) = d", "((a IN b, c) = d)"),
        ("a IS DISTINCT FROM b + 1 OR c", "((a IS DISTINCT FROM (b + 1)) OR c)"),
        ("a MEMBER OF b AND c", "((a MEMBER OF b) AND c)"),
        ("a MULTISET UNION b", "(a MULTISET UNION ALL b)"),
        ("(a OR b) AND (c OR d)", "((a OR b) AND (c OR d))"),
        ("(a AND b) AND c", "((a AND b) AND c)"),
    ],
)
def test_operators_bind(text: str, expected: str) -> None:
    assert grouped(parse_expression(text)) == expected


LITERALS = {
    "12345678901234567890123": IntegerLiteral(12345678901234567890123, start=0, end=0),
    "1.50": DecimalLiteral(Decimal("1.50"), start=0, end=0),
    "1e3": DoubleLiteral("1e3", start=0, end=0),
    "'it''s'\n' on'": StringLiteral("it's on", start=0, end=0),
    "U&'\\00e9!'": StringLiteral("é!", start=0, end=0),
    "U&'#00e9' UESCAPE '#'": StringLiteral("é", start=0, end=0),
    "TRUE": BooleanLiteral(True, start=0, end=0),
    "unknown": BooleanLiteral(None, start=0, end=0),
    "NULL": NullLiteral(start=0, end=0),
}


@pytest.mark.parametrize("text", LITERALS)
def test_literals(text: str) -> None:
    found = parse_expression(text)
    assert found == LITERALS[text]
    assert (found.start, found.end) == (0, len(text))


def test_intervals() -> None:
    literal = parse_expression("INTERVAL -'1 02' DAY(3) TO SECOND(6)")
    assert isinstance(literal, IntervalLiteral)
    assert (literal.text, literal.is_negative) == ("1 02", True)
    qualifier = literal.qualifier
    assert (qualifier.first, qualifier.last, qualifier.precision, qualifier.fraction) == (
        TimeUnit.DAY,
        TimeUnit.SECOND,
        3,
        6,
    )
    for text in ("INTERVAL 1 DAY", "INTERVAL a.b DAYS", "INTERVAL (a + 1) DAY", "(a - b) DAY"):
        computed = parse_expression(text)
        assert isinstance(computed, IntervalExpression), text
        assert computed.qualifier.first is TimeUnit.DAY


def test_forms_with_words_are_calls() -> None:
    extract = parse_expression("EXTRACT(YEAR FROM a)")
    assert isinstance(extract, SqlCall)
    assert extract.name == "EXTRACT"
    assert extract.arguments[0] == UnitArgument(TimeUnit.YEAR, start=0, end=0)
    for text in ("SUBSTRING(a FROM 1 FOR 2)", "substring(a, 1, 2)"):
        call = parse_expression(text)
        assert isinstance(call, SqlCall)
        assert (call.name, len(call.arguments)) == ("SUBSTRING", 3)
    for text, count in {
        "OVERLAY(a PLACING b FROM 1)": 3,
        "POSITION(a IN b)": 2,
        "CEIL(a TO DAY)": 2,
        "FLOOR(a)": 1,
        "TIMESTAMPDIFF(DAY, a, b)": 3,
        "CURRENT_TIMESTAMP": 0,
        "LEFT(a, 1)": 2,
        "DATE(a)": 1,
    }.items():
        call = parse_expression(text)
        assert isinstance(call, SqlCall), text
        assert len(call.arguments) == count, text


def test_trim_cast_and_case() -> None:
    trim = parse_expression("TRIM(LEADING 'x' FROM a)")
    assert isinstance(trim, Trim)
    assert (trim.side, trim.characters) == (TrimSide.LEADING, StringLiteral("x", start=0, end=0))
    plain = parse_expression("TRIM(a)")
    assert isinstance(plain, Trim)
    assert (plain.side, plain.characters) == (TrimSide.BOTH, None)
    cast = parse_expression("TRY_CAST(a AS ARRAY<INT NOT NULL>)")
    assert isinstance(cast, CastExpression)
    assert cast.is_try
    case = parse_expression("CASE a WHEN 1, 2 THEN 'x' ELSE 'y' END")
    assert isinstance(case, CaseExpression)
    assert len(case.branches[0].conditions) == 2


def test_calls_have_their_clauses() -> None:
    over = parse_expression("COUNT(DISTINCT a) FILTER (WHERE b) OVER (w PARTITION BY c ORDER BY d DESC NULLS LAST)")
    assert isinstance(over, Over)
    assert (over.call.quantifier, over.call.filter is None) == (SetQuantifier.DISTINCT, False)
    assert isinstance(over.window, OverWindow)
    assert str(over.window.base) == "w"
    assert (over.window.order_by[0].descending, over.window.order_by[0].nulls_first) == (True, False)
    count = parse_expression("COUNT(*)")
    assert isinstance(count, SqlCall)
    assert count.arguments == (Star(start=0, end=0),)
    ordered = parse_expression("LISTAGG(a, ',') WITHIN GROUP (ORDER BY b)")
    assert isinstance(ordered, SqlCall)
    assert (ordered.is_within_group, len(ordered.order_by)) == (True, 1)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("ROWS BETWEEN 5 PRECEDING AND CURRENT ROW", BoundKind.PRECEDING, BoundKind.CURRENT_ROW),
        ("RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND 1 FOLLOWING", BoundKind.PRECEDING, BoundKind.FOLLOWING),
        ("ROWS UNBOUNDED PRECEDING", BoundKind.UNBOUNDED_PRECEDING, None),
    ],
)
def test_frames(text: str, low: BoundKind, high: BoundKind | None) -> None:
    over = parse_expression(f"SUM(a) OVER (ORDER BY b {text})")
    assert isinstance(over, Over)
    assert isinstance(over.window, OverWindow)
    frame = over.window.frame
    assert isinstance(frame, WindowFrame)
    assert frame.is_rows is text.startswith("ROWS")
    assert (frame.low.kind, frame.high and frame.high.kind) == (low, high)


def test_arguments_of_tables() -> None:
    call = parse_expression("f(input => TABLE t PARTITION BY (a, b) ORDER BY c, on_time => DESCRIPTOR(d), n => 1)")
    assert isinstance(call, SqlCall)
    assert all(isinstance(argument, NamedArgument) for argument in call.arguments)
    table, descriptor, _ = (argument.value for argument in call.arguments if isinstance(argument, NamedArgument))
    assert isinstance(table, TableArgument)
    assert (len(table.partition_by), len(table.order_by)) == (2, 1)
    assert isinstance(descriptor, Descriptor)
    assert [str(column) for column in descriptor.columns] == ["d"]


def test_json() -> None:
    value = parse_expression("JSON_VALUE(a, '$.b' RETURNING INT DEFAULT 1 ON EMPTY ERROR ON ERROR)")
    assert isinstance(value, JsonPathCall)
    assert value.on_empty is not None
    assert value.on_error is not None
    assert (value.on_empty.kind, value.on_error.kind) == (JsonBehaviorKind.DEFAULT, JsonBehaviorKind.ERROR)
    made = parse_expression("JSON_OBJECT(KEY 'a' VALUE 1, 'b' : 2 ABSENT ON NULL)")
    assert isinstance(made, JsonObject)
    assert (len(made.entries), made.absent_on_null) == (2, True)
    test = parse_expression("a IS NOT JSON OBJECT")
    assert isinstance(test, IsTest)
    assert (test.test, test.negated) == (OperandTest.JSON_OBJECT, True)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a IN (SELECT b FROM t)", InQuery),
        ("a NOT IN (1, (SELECT 2))", InList),
        ("a < ALL (SELECT b FROM t)", Quantified),
        ("a = ANY (1, 2)", Quantified),
        ("EXISTS (SELECT 1)", Exists),
        ("(SELECT 1)", ScalarQuery),
        ("((SELECT 1) UNION SELECT 2)", ScalarQuery),
        ("((SELECT 1) + 1)", Binary),
        ("(a, b)", RowConstructor),
        ("ROW(a)", RowConstructor),
        ("(a)", Identifier),
        ("MAP['a', 1]", CollectionConstructor),
        ("t.*", Star),
        ("f(x).y", SqlFieldAccess),
    ],
)
def test_parentheses_and_brackets(text: str, kind: type) -> None:
    assert type(parse_expression(text)) is kind


def test_chains_are_not_deep() -> None:
    sums = parse_expression(" + ".join(["a"] * 3000))
    assert isinstance(sums, Binary)
    first, rest = sums.chain()
    assert isinstance(first, Identifier)
    assert [operator for operator, _ in rest] == [BinaryOperator.PLUS] * 2999
    both = parse_expression(" AND ".join(["a"] * 3000))
    assert isinstance(both, Logical)
    assert len(both.operands) == 3000


def atomic(word: TypeWord, size: int | None = None, scale: int | None = None, *, null: bool | None = None) -> TypeSpec:
    return AtomicTypeSpec(null, word, size, scale, start=0, end=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTEGER NOT NULL", atomic(TypeWord.INT, null=False)),
        ("numeric(5, 1)", atomic(TypeWord.DECIMAL, 5, 1)),
        ("DOUBLE PRECISION", atomic(TypeWord.DOUBLE)),
        ("CHARACTER VARYING(3)", atomic(TypeWord.VARCHAR, 3)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", atomic(TypeWord.TIMESTAMP_LTZ, 3)),
        ("TIMESTAMP WITHOUT TIME ZONE", atomic(TypeWord.TIMESTAMP)),
        ("INT NOT NULL ARRAY", CollectionTypeSpec(None, atomic(TypeWord.INT, null=False), False, start=0, end=0)),
        ("MULTISET<INT>", CollectionTypeSpec(None, atomic(TypeWord.INT), True, start=0, end=0)),
        ("MAP<INT, INT>", MapTypeSpec(None, atomic(TypeWord.INT), atomic(TypeWord.INT), start=0, end=0)),
        ("ROW<>", RowTypeSpec(None, (), start=0, end=0)),
    ],
)
def test_types(text: str, expected: TypeSpec) -> None:
    assert parse_type(text) == expected


def test_types_of_other_types() -> None:
    row = parse_type("ROW<a INT NOT NULL 'doc', `b c` ARRAY<ROW(d INT)>> NULL")
    assert isinstance(row, RowTypeSpec)
    assert (row.nullable, [str(each.name) for each in row.fields]) == (True, ["a", "b c"])
    assert row.fields[0].comment == "doc"
    assert isinstance(parse_type("my.type"), NamedTypeSpec)
