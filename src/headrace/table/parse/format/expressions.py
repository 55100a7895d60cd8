"""Expressions and types as text."""

import re
from collections.abc import Iterable
from functools import singledispatch
from typing import Final

from headrace.table.parse import precedence
from headrace.table.parse.keywords import RESERVED
from headrace.table.parse.tree import expressions as ex
from headrace.table.parse.tree import json as js
from headrace.table.parse.tree import types as ty
from headrace.table.parse.tree.node import Name, Path, SqlNode
from headrace.table.parse.tree.queries import TableQuery

_NEEDS_PARENTHESES: Final = (ex.Identifier, ex.IntegerLiteral, ex.DecimalLiteral, ex.DoubleLiteral)
"""The operands that need parentheses before ``.name``."""

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@singledispatch
def sql_of(node: SqlNode) -> str:
    """The text of a query, a relation, an expression, a type, or of a part of these.

    Raises:
        NotImplementedError: when it is a statement.

    Examples:
        >>> from headrace.table.parse import parse_expression
        >>> from headrace.table.parse.format import sql_of
        >>> sql_of(parse_expression("a+ t.b*2"))
        '`a` + `t`.`b` * 2'
    """
    raise NotImplementedError(f"there is no text of a {type(node).__name__}")


def quoted(name: str) -> str:
    """A name in backticks."""
    return f"`{name.replace('`', '``')}`"


def quoted_path(names: Iterable[str]) -> str:
    """A path with each of its names in backticks."""
    return ".".join(map(quoted, names))


def literal(text: str) -> str:
    """A text in quotes."""
    return f"'{text.replace(chr(39), chr(39) * 2)}'"


def listed(nodes: Iterable[SqlNode]) -> str:
    """Nodes with commas between them."""
    return ", ".join(map(sql_of, nodes))


def names_of(names: Iterable[Name]) -> str:
    """Names in parentheses."""
    return f"({listed(names)})"


def behind(word: str, node: SqlNode | None) -> str:
    """A space, a keyword and a node, or nothing."""
    return "" if node is None else f" {word} {sql_of(node)}"


def _operand(node: ex.SqlExpression, least: int) -> str:
    """The text of an operand, in parentheses if its precedence is lower than that of the expression around it."""
    text = sql_of(node)
    return text if precedence.of_expression(node) >= least else f"({text})"


@sql_of.register
def _(node: Name) -> str:
    return quoted(node.text)


@sql_of.register
def _(node: Path) -> str:
    return ".".join(map(sql_of, node.names))


# --- types -----------------------------------------------------------------------------------------------------------


def _null(node: ty.TypeSpec) -> str:
    return {None: "", True: " NULL", False: " NOT NULL"}[node.nullable]


@sql_of.register
def _(node: ty.AtomicTypeSpec) -> str:
    sizes = [str(size) for size in (node.size, node.scale) if size is not None]
    word = "INTEGER" if node.word is ty.TypeWord.INT else node.word.value
    return f"{word}{'(' + ', '.join(sizes) + ')' if sizes else ''}{_null(node)}"


@sql_of.register
def _(node: ty.NamedTypeSpec) -> str:
    return f"{sql_of(node.path)}{_null(node)}"


@sql_of.register
def _(node: ty.CollectionTypeSpec) -> str:
    return f"{'MULTISET' if node.is_multiset else 'ARRAY'}<{sql_of(node.element)}>{_null(node)}"


@sql_of.register
def _(node: ty.MapTypeSpec) -> str:
    return f"MAP<{sql_of(node.key)}, {sql_of(node.value)}>{_null(node)}"


@sql_of.register
def _(node: ty.RowTypeField) -> str:
    comment = "" if node.comment is None else f" {literal(node.comment)}"
    return f"{sql_of(node.name)} {sql_of(node.type)}{comment}"


@sql_of.register
def _(node: ty.RowTypeSpec) -> str:
    parts = [sql_of(field) for field in node.fields]
    if node.class_name is None:
        return f"ROW<{', '.join(parts)}>{_null(node)}"
    return f"STRUCTURED<{', '.join([literal(node.class_name), *parts])}>{_null(node)}"


@sql_of.register
def _(node: ty.RawTypeSpec) -> str:
    return f"RAW({literal(node.class_name)}, {literal(node.serializer)}){_null(node)}"


@sql_of.register
def _(node: ty.IntervalTypeSpec) -> str:
    return f"INTERVAL {sql_of(node.qualifier)}"


@sql_of.register
def _(node: ty.IntervalQualifier) -> str:
    if node.last is None:
        sizes = [str(size) for size in (node.precision, node.fraction) if size is not None]
        return f"{node.first.value}{'(' + ', '.join(sizes) + ')' if sizes else ''}"
    first = "" if node.precision is None else f"({node.precision})"
    last = "" if node.fraction is None else f"({node.fraction})"
    return f"{node.first.value}{first} TO {node.last.value}{last}"


# --- literals and names ----------------------------------------------------------------------------------------------


@sql_of.register
def _(node: ex.Identifier) -> str:
    return ".".join(map(sql_of, node.names))


@sql_of.register
def _(node: ex.Star) -> str:
    return ".".join([*map(sql_of, node.qualifier), "*"])


@sql_of.register
def _(_: ex.DynamicParameter) -> str:
    return "?"


@sql_of.register
def _(node: ex.IntegerLiteral) -> str:
    return str(node.value)


@sql_of.register
def _(node: ex.DecimalLiteral) -> str:
    text = f"{node.value:f}"
    return text if "." in text else f"{text}."


@sql_of.register
def _(node: ex.DoubleLiteral) -> str:
    return node.text


@sql_of.register
def _(node: ex.StringLiteral) -> str:
    return literal(node.value)


@sql_of.register
def _(node: ex.BinaryLiteral) -> str:
    return f"X'{node.value.hex().upper()}'"


@sql_of.register
def _(node: ex.BooleanLiteral) -> str:
    return {None: "UNKNOWN", True: "TRUE", False: "FALSE"}[node.value]


@sql_of.register
def _(_: ex.NullLiteral) -> str:
    return "NULL"


@sql_of.register
def _(node: ex.TemporalLiteral) -> str:
    return f"{node.kind.value} {literal(node.text)}"


@sql_of.register
def _(node: ex.IntervalLiteral) -> str:
    return f"INTERVAL {'-' * node.is_negative}{literal(node.text)} {sql_of(node.qualifier)}"


@sql_of.register
def _(node: ex.IntervalExpression) -> str:
    if node.qualifier.last is not None:  # which only an operand without INTERVAL has
        return f"({sql_of(node.operand)}) {sql_of(node.qualifier)}"
    return f"INTERVAL {'-' * node.is_negative}({sql_of(node.operand)}) {sql_of(node.qualifier)}"


# --- operators -------------------------------------------------------------------------------------------------------


@sql_of.register
def _(node: ex.Unary) -> str:
    operand = _operand(node.operand, precedence.of_expression(node))
    is_sign = node.operator is not ex.UnaryOperator.NOT
    space = "" if is_sign and operand[0].isdigit() else " "
    return f"{node.operator.value}{space}{operand}"


@sql_of.register
def _(node: ex.Binary) -> str:
    first, rest = node.chain()
    text = _operand(first, precedence.of_operator(rest[0][0]))
    bound = precedence.OPERAND
    for operator, right in rest:
        binds = precedence.of_operator(operator)
        if bound < binds:
            text = f"({text})"
        text = f"{text} {operator.value} {_operand(right, binds + 1)}"
        bound = binds
    return text


@sql_of.register
def _(node: ex.Logical) -> str:
    word = " AND " if node.is_and else " OR "
    return word.join(_operand(each, precedence.of_expression(node) + 1) for each in node.operands)


@sql_of.register
def _(node: ex.IsTest) -> str:
    return f"{_operand(node.operand, precedence.IS)} IS {'NOT ' * node.negated}{node.test.value}"


def _pattern_operand(node: ex.SqlExpression, negated: bool) -> str:
    return f"{_operand(node, precedence.PATTERN + 1)}{' NOT' * negated}"


@sql_of.register
def _(node: ex.Between) -> str:
    low, high = (_operand(each, precedence.PATTERN + 1) for each in (node.low, node.high))
    word = "BETWEEN SYMMETRIC" if node.symmetric else "BETWEEN ASYMMETRIC"
    return f"{_pattern_operand(node.operand, node.negated)} {word} {low} AND {high}"


@sql_of.register
def _(node: ex.Like) -> str:
    pattern = _operand(node.pattern, precedence.PATTERN + 1)
    escape = "" if node.escape is None else f" ESCAPE {_operand(node.escape, precedence.PATTERN + 1)}"
    return f"{_pattern_operand(node.operand, node.negated)} {node.kind.value} {pattern}{escape}"


@sql_of.register
def _(node: ex.InList) -> str:
    return f"{_pattern_operand(node.operand, node.negated)} IN ({listed(node.items)})"


@sql_of.register
def _(node: ex.InQuery) -> str:
    return f"{_pattern_operand(node.operand, node.negated)} IN ({sql_of(node.query)})"


@sql_of.register
def _(node: ex.Quantified) -> str:
    inner = listed(node.items) if node.query is None else sql_of(node.query)
    operand = _operand(node.operand, precedence.COMPARISON)
    return f"{operand} {node.operator.value} {'ALL' if node.is_all else 'ANY'} ({inner})"


@sql_of.register
def _(node: ex.Exists) -> str:
    return f"{'UNIQUE' if node.is_unique else 'EXISTS'} ({sql_of(node.query)})"


@sql_of.register
def _(node: ex.ScalarQuery) -> str:
    return f"({sql_of(node.query)})"


@sql_of.register
def _(node: ex.ItemAccess) -> str:
    return f"{_operand(node.operand, precedence.ITEM)}[{sql_of(node.index)}]"


@sql_of.register
def _(node: ex.SqlFieldAccess) -> str:
    operand = _operand(node.operand, precedence.ITEM)
    return (
        f"({operand}).{sql_of(node.name)}"
        if isinstance(node.operand, _NEEDS_PARENTHESES)
        else f"{operand}.{sql_of(node.name)}"
    )


# --- special forms ---------------------------------------------------------------------------------------------------


@sql_of.register
def _(node: ex.CaseBranch) -> str:
    return f"WHEN {listed(node.conditions)} THEN {sql_of(node.result)}"


@sql_of.register
def _(node: ex.CaseExpression) -> str:
    operand = "" if node.operand is None else f" {sql_of(node.operand)}"
    return f"CASE{operand} {' '.join(map(sql_of, node.branches))}{behind('ELSE', node.otherwise)} END"


@sql_of.register
def _(node: ex.CastExpression) -> str:
    return f"{'TRY_CAST' if node.is_try else 'CAST'}({sql_of(node.operand)} AS {sql_of(node.type)})"


@sql_of.register
def _(node: ex.CollectionConstructor) -> str:
    return f"{node.kind.value}[{listed(node.items)}]"


@sql_of.register
def _(node: ex.CollectionQuery) -> str:
    return f"{node.kind.value}({sql_of(node.query)})"


@sql_of.register
def _(node: ex.RowConstructor) -> str:
    return f"{'ROW' if node.has_word else ''}({listed(node.items)})"


@sql_of.register
def _(node: ex.Trim) -> str:
    characters = "" if node.characters is None else f" {sql_of(node.characters)}"
    return f"TRIM({node.side.value}{characters} FROM {sql_of(node.operand)})"


@sql_of.register
def _(node: ex.UnitArgument) -> str:
    return node.unit.value


# --- calls -----------------------------------------------------------------------------------------------------------

_SEPARATORS: Final = {
    "EXTRACT": (" FROM ",),
    "POSITION": (" IN ", " FROM "),
    "OVERLAY": (" PLACING ", " FROM ", " FOR "),
    "FLOOR": (" TO ",),
    "CEIL": (" TO ",),
}
"""Separators of a function's arguments, by its name."""


_NO_OPERATOR: Final = re.compile(
    r"(?:ARRAY|BITMAP|INET|MAP|OBJECT|URL)_\w+|JSON_(?:QUOTE|STRING|UNQUOTE)|(?:TRY_)?PARSE_JSON"
    r"|REGEXP_(?:COUNT|EXTRACT_ALL|INSTR|SUBSTR)|BTRIM|ELT|ENDSWITH|GREATEST|IFNULL|LEAST|PERCENTILE|PRINTF|SPLIT"
    r"|SOURCE_WATERMARK|STARTSWITH|TO_TIMESTAMP_LTZ|TYPEOF|UNHEX"
)
"""The functions that are no operators of Calcite in Flink."""


def _function(path: Path) -> str:
    """The name of a function, in backticks where Flink writes them."""
    if len(path.names) == 1 and _NO_OPERATOR.fullmatch(path.names[0].text.upper()):
        return quoted(path.names[0].text)
    if len(path.names) == 1 and _PLAIN.fullmatch(path.names[0].text):
        return path.names[0].text.upper() if path.names[0].text.upper() in RESERVED else path.names[0].text
    return sql_of(path)


def _arguments(node: ex.SqlCall) -> str:
    separators = _SEPARATORS.get(node.name, ())
    text = ""
    for number, argument in enumerate(node.arguments):
        between = separators[number - 1] if 0 < number <= len(separators) else ", "
        text += f"{between if number else ''}{sql_of(argument)}"
    return text


@sql_of.register
def _(node: ex.SqlCall) -> str:
    if not node.has_parentheses:
        return _function(node.function)
    quantifier = "" if node.quantifier is None else f"{node.quantifier.value} "
    order = f"ORDER BY {listed(node.order_by)}"
    inner = f" {order}" if node.order_by and not node.is_within_group else ""
    text = f"{_function(node.function)}({quantifier}{_arguments(node)}{inner})"
    if node.null_treatment is not None:
        text += f" {node.null_treatment.value}"
    if node.is_within_group:
        text += f" WITHIN GROUP ({order})"
    return text if node.filter is None else f"{text} FILTER (WHERE {sql_of(node.filter)})"


@sql_of.register
def _(node: ex.OrderItem) -> str:
    nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[node.nulls_first]
    return f"{sql_of(node.expression)}{' DESC' * node.descending}{nulls}"


@sql_of.register
def _(node: ex.WindowFrameBound) -> str:
    offset = "" if node.offset is None else f"{_operand(node.offset, precedence.IS)} "
    return f"{offset}{node.kind.value}"


@sql_of.register
def _(node: ex.WindowFrame) -> str:
    word = "ROWS" if node.is_rows else "RANGE"
    if node.high is None:
        return f"{word} {sql_of(node.low)}"
    return f"{word} BETWEEN {sql_of(node.low)} AND {sql_of(node.high)}"


@sql_of.register
def _(node: ex.OverWindow) -> str:
    parts = [sql_of(node.base)] if node.base is not None else []
    if node.partition_by:
        parts.append(f"PARTITION BY {listed(node.partition_by)}")
    if node.order_by:
        parts.append(f"ORDER BY {listed(node.order_by)}")
    if node.frame is not None:
        parts.append(sql_of(node.frame))
    if node.allow_partial is not None:
        parts.append("ALLOW PARTIAL" if node.allow_partial else "DISALLOW PARTIAL")
    return f"({' '.join(parts)})"


@sql_of.register
def _(node: ex.Over) -> str:
    return f"{sql_of(node.call)} OVER {sql_of(node.window)}"


@sql_of.register
def _(node: ex.MatchSemantics) -> str:
    return f"{'FINAL' if node.is_final else 'RUNNING'} {sql_of(node.call)}"


@sql_of.register
def _(node: ex.NamedArgument) -> str:
    return f"{sql_of(node.name)} => {sql_of(node.value)}"


@sql_of.register
def _(_: ex.DefaultArgument) -> str:
    return "DEFAULT"


@sql_of.register
def _(node: ex.Descriptor) -> str:
    return f"DESCRIPTOR({listed(node.columns)})"


@sql_of.register
def _(node: ex.TableArgument) -> str:
    text = sql_of(node.query) if isinstance(node.query, TableQuery) else f"({sql_of(node.query)})"
    if node.partition_by:
        text += f" PARTITION BY {names_of(node.partition_by)}"
    return f"{text} ORDER BY ({listed(node.order_by)})" if node.order_by else text


@sql_of.register
def _(node: ex.ModelArgument) -> str:
    return f"MODEL {sql_of(node.model)}"


# --- JSON ------------------------------------------------------------------------------------------------------------


def _null_clause(absent_on_null: bool | None) -> str:
    return {None: "", True: " ABSENT ON NULL", False: " NULL ON NULL"}[absent_on_null]


@sql_of.register
def _(node: js.JsonBehavior) -> str:
    return f"{node.kind.value}{'' if node.default is None else f' {sql_of(node.default)}'}"


@sql_of.register
def _(node: js.JsonPathCall) -> str:
    text = f"{sql_of(node.operand)}, {sql_of(node.path)}{behind('RETURNING', node.returning)}"
    if node.wrapper is not None:
        text += f" {node.wrapper.value}"
    for behavior, clause in ((node.on_empty, "EMPTY"), (node.on_error, "ERROR")):
        if behavior is not None:
            text += f" {sql_of(behavior)} ON {clause}"
    return f"{node.function.value}({text})"


@sql_of.register
def _(node: js.JsonFormatted) -> str:
    return f"{_operand(node.operand, precedence.IS)} FORMAT JSON"


@sql_of.register
def _(node: js.JsonEntry) -> str:
    return f"KEY {sql_of(node.key)} VALUE {sql_of(node.value)}"


@sql_of.register
def _(node: js.JsonObject) -> str:
    word = "JSON_OBJECTAGG" if node.is_aggregate else "JSON_OBJECT"
    return f"{word}({listed(node.entries)}{_null_clause(node.absent_on_null)})"


@sql_of.register
def _(node: js.JsonArray) -> str:
    word = "JSON_ARRAYAGG" if node.is_aggregate else "JSON_ARRAY"
    order = f" ORDER BY {listed(node.order_by)}" if node.order_by else ""
    return f"{word}({listed(node.items)}{order}{_null_clause(node.absent_on_null)})"
