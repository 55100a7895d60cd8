"""Trees back to text, as Flink shows the queries of views: names in backticks, a clause a line.

What is written parses to an equal tree. Statements that define tables are written by the catalog, from what it holds.
"""

import re
from collections.abc import Iterable
from functools import singledispatch
from typing import Final

from headrace.table.parse import precedence
from headrace.table.parse.keywords import RESERVED
from headrace.table.parse.tree import expressions as ex
from headrace.table.parse.tree import queries as qu
from headrace.table.parse.tree import types as ty
from headrace.table.parse.tree.node import Name, Path, QueryExpression, SqlNode

_NEEDS_PARENTHESES: Final = (ex.Identifier, ex.IntegerLiteral, ex.DecimalLiteral, ex.DoubleLiteral)
"""What a point behind it would go on with."""

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


def literal(text: str) -> str:
    """A text in quotes."""
    return f"'{text.replace(chr(39), chr(39) * 2)}'"


def _list(nodes: Iterable[SqlNode]) -> str:
    return ", ".join(map(sql_of, nodes))


def _names(names: Iterable[Name]) -> str:
    return f"({_list(names)})"


def _behind(word: str, node: SqlNode | None) -> str:
    return "" if node is None else f" {word} {sql_of(node)}"


def _operand(node: ex.SqlExpression, least: int) -> str:
    """The text of an operand, in parentheses where it binds less than what is around it."""
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
    return f"{node.word.value}{'(' + ', '.join(sizes) + ')' if sizes else ''}{_null(node)}"


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
def _(_: ex.Parameter) -> str:
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
    space = " " if node.operator is ex.UnaryOperator.NOT or operand[0] in "+-" else ""
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
    word = "BETWEEN SYMMETRIC" if node.symmetric else "BETWEEN"
    return f"{_pattern_operand(node.operand, node.negated)} {word} {low} AND {high}"


@sql_of.register
def _(node: ex.Like) -> str:
    pattern = _operand(node.pattern, precedence.PATTERN + 1)
    escape = "" if node.escape is None else f" ESCAPE {_operand(node.escape, precedence.PATTERN + 1)}"
    return f"{_pattern_operand(node.operand, node.negated)} {node.kind.value} {pattern}{escape}"


@sql_of.register
def _(node: ex.InList) -> str:
    return f"{_pattern_operand(node.operand, node.negated)} IN ({_list(node.items)})"


@sql_of.register
def _(node: ex.InQuery) -> str:
    return f"{_pattern_operand(node.operand, node.negated)} IN ({sql_of(node.query)})"


@sql_of.register
def _(node: ex.Quantified) -> str:
    inner = _list(node.items) if node.query is None else sql_of(node.query)
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
def _(node: ex.FieldAccess) -> str:
    operand = _operand(node.operand, precedence.ITEM)
    return (
        f"({operand}).{sql_of(node.name)}"
        if isinstance(node.operand, _NEEDS_PARENTHESES)
        else f"{operand}.{sql_of(node.name)}"
    )


# --- special forms ---------------------------------------------------------------------------------------------------


@sql_of.register
def _(node: ex.CaseBranch) -> str:
    return f"WHEN {_list(node.conditions)} THEN {sql_of(node.result)}"


@sql_of.register
def _(node: ex.CaseExpression) -> str:
    operand = "" if node.operand is None else f" {sql_of(node.operand)}"
    return f"CASE{operand} {' '.join(map(sql_of, node.branches))}{_behind('ELSE', node.otherwise)} END"


@sql_of.register
def _(node: ex.CastExpression) -> str:
    return f"{'TRY_CAST' if node.is_try else 'CAST'}({sql_of(node.operand)} AS {sql_of(node.type)})"


@sql_of.register
def _(node: ex.CollectionConstructor) -> str:
    return f"{node.kind.value}[{_list(node.items)}]"


@sql_of.register
def _(node: ex.CollectionQuery) -> str:
    return f"{node.kind.value}({sql_of(node.query)})"


@sql_of.register
def _(node: ex.RowConstructor) -> str:
    return f"{'ROW' if node.has_word else ''}({_list(node.items)})"


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
    "SUBSTRING": (" FROM ", " FOR "),
    "FLOOR": (" TO ",),
    "CEIL": (" TO ",),
}
"""By function, the words between its arguments."""


def _function(path: Path) -> str:
    """The name of a function, without backticks where it can be read without."""
    if len(path.names) == 1 and _PLAIN.fullmatch(path.names[0].text):
        return path.names[0].text.upper() if path.names[0].text.upper() in RESERVED else path.names[0].text
    return sql_of(path)


def _arguments(node: ex.Call) -> str:
    separators = _SEPARATORS.get(node.name, ())
    text = ""
    for number, argument in enumerate(node.arguments):
        between = separators[number - 1] if 0 < number <= len(separators) else ", "
        text += f"{between if number else ''}{sql_of(argument)}"
    return text


@sql_of.register
def _(node: ex.Call) -> str:
    if not node.has_parentheses:
        return _function(node.function)
    quantifier = "" if node.quantifier is None else f"{node.quantifier.value} "
    order = f"ORDER BY {_list(node.order_by)}"
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
def _(node: ex.FrameBound) -> str:
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
        parts.append(f"PARTITION BY {_list(node.partition_by)}")
    if node.order_by:
        parts.append(f"ORDER BY {_list(node.order_by)}")
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
    return f"DESCRIPTOR({_list(node.columns)})"


@sql_of.register
def _(node: ex.TableArgument) -> str:
    text = sql_of(node.query) if isinstance(node.query, qu.TableQuery) else f"({sql_of(node.query)})"
    if node.partition_by:
        text += f" PARTITION BY {_names(node.partition_by)}"
    return f"{text} ORDER BY ({_list(node.order_by)})" if node.order_by else text


@sql_of.register
def _(node: ex.ModelArgument) -> str:
    return f"MODEL {sql_of(node.model)}"


# --- JSON ------------------------------------------------------------------------------------------------------------


def _null_clause(absent_on_null: bool | None) -> str:
    return {None: "", True: " ABSENT ON NULL", False: " NULL ON NULL"}[absent_on_null]


@sql_of.register
def _(node: ex.JsonBehavior) -> str:
    return f"{node.kind.value}{'' if node.default is None else f' {sql_of(node.default)}'}"


@sql_of.register
def _(node: ex.JsonPathCall) -> str:
    text = f"{sql_of(node.operand)}, {sql_of(node.path)}{_behind('RETURNING', node.returning)}"
    if node.wrapper is not None:
        text += f" {node.wrapper.value}"
    for behavior, clause in ((node.on_empty, "EMPTY"), (node.on_error, "ERROR")):
        if behavior is not None:
            text += f" {sql_of(behavior)} ON {clause}"
    return f"{node.function.value}({text})"


@sql_of.register
def _(node: ex.JsonFormatted) -> str:
    return f"{_operand(node.operand, precedence.IS)} FORMAT JSON"


@sql_of.register
def _(node: ex.JsonEntry) -> str:
    return f"KEY {sql_of(node.key)} VALUE {sql_of(node.value)}"


@sql_of.register
def _(node: ex.JsonObject) -> str:
    word = "JSON_OBJECTAGG" if node.is_aggregate else "JSON_OBJECT"
    return f"{word}({_list(node.entries)}{_null_clause(node.absent_on_null)})"


@sql_of.register
def _(node: ex.JsonArray) -> str:
    word = "JSON_ARRAYAGG" if node.is_aggregate else "JSON_ARRAY"
    order = f" ORDER BY {_list(node.order_by)}" if node.order_by else ""
    return f"{word}({_list(node.items)}{order}{_null_clause(node.absent_on_null)})"


# --- queries ---------------------------------------------------------------------------------------------------------


@sql_of.register
def _(node: qu.Hint) -> str:
    inner = ", ".join([f"{literal(key)} = {literal(value)}" for key, value in node.options] or map(literal, node.items))
    return f"{sql_of(node.name)}({inner})"


def _hints(hints: tuple[qu.Hint, ...]) -> str:
    return f" /*+ {_list(hints)} */" if hints else ""


def _quantifier(quantifier: ex.Quantifier | None) -> str:
    return "" if quantifier is None else f" {quantifier.value}"


def _aliased(text: str, alias: Name | None) -> str:
    return text if alias is None else f"{text} AS {sql_of(alias)}"


@sql_of.register
def _(node: qu.SelectItem) -> str:
    return _aliased(sql_of(node.expression), node.alias)


@sql_of.register
def _(node: qu.GroupingElements) -> str:
    return f"{node.kind.value} ({_list(node.elements)})"


@sql_of.register
def _(_: qu.EmptyGrouping) -> str:
    return "()"


@sql_of.register
def _(node: qu.GroupBy) -> str:
    return f"GROUP BY{_quantifier(node.quantifier)} {_list(node.elements)}"


@sql_of.register
def _(node: qu.NamedWindow) -> str:
    return f"{sql_of(node.name)} AS {sql_of(node.window)}"


@sql_of.register
def _(node: qu.SelectQuery) -> str:
    lines = [f"SELECT{_hints(node.hints)}{_quantifier(node.quantifier)} {_list(node.items)}"]
    if node.relation is not None:
        lines.append(f"FROM {sql_of(node.relation)}")
    if node.where is not None:
        lines.append(f"WHERE {sql_of(node.where)}")
    if node.group_by is not None:
        lines.append(sql_of(node.group_by))
    if node.having is not None:
        lines.append(f"HAVING {sql_of(node.having)}")
    if node.windows:
        lines.append(f"WINDOW {_list(node.windows)}")
    if node.qualify is not None:
        lines.append(f"QUALIFY {sql_of(node.qualify)}")
    return "\n".join(lines)


def _row(items: tuple[ex.SqlExpression, ...]) -> str:
    return f"ROW({_list(items)})"


@sql_of.register
def _(node: qu.ValuesQuery) -> str:
    return f"VALUES {', '.join(map(_row, node.rows))}"


@sql_of.register
def _(node: qu.TableQuery) -> str:
    return f"TABLE {sql_of(node.table)}"


def _part(node: QueryExpression) -> str:
    simple = isinstance(node, (qu.SelectQuery, qu.ValuesQuery, qu.TableQuery))
    return sql_of(node) if simple else f"({sql_of(node)})"


def _is_intersection(node: QueryExpression) -> bool:
    return isinstance(node, qu.SetOperation) and node.operator is qu.SetOperator.INTERSECT


@sql_of.register
def _(node: qu.SetOperation) -> str:
    rights: list[qu.SetOperation] = []
    left: QueryExpression = node
    while isinstance(left, qu.SetOperation):
        rights.append(left)
        left = left.left
    text = _part(left)
    for number, operation in enumerate(reversed(rights)):
        is_intersection = operation.operator is qu.SetOperator.INTERSECT
        if number and is_intersection and not _is_intersection(operation.left):
            text = f"({text})"
        right = (
            sql_of(operation.right)
            if not is_intersection and _is_intersection(operation.right)
            else _part(operation.right)
        )
        text = f"{text}\n{operation.operator.value}{' ALL' * operation.is_all}\n{right}"
    return text


@sql_of.register
def _(node: qu.WithItem) -> str:
    columns = f" {_names(node.columns)}" if node.columns else ""
    return f"{sql_of(node.name)}{columns} AS ({sql_of(node.query)})"


@sql_of.register
def _(node: qu.WithQuery) -> str:
    body = sql_of(node.body) if isinstance(node.body, qu.SetOperation) else _part(node.body)
    return f"WITH {'RECURSIVE ' * node.is_recursive}{_list(node.items)}\n{body}"


@sql_of.register
def _(node: qu.OrderedQuery) -> str:
    lines = [f"({sql_of(node.body)})" if isinstance(node.body, qu.OrderedQuery) else sql_of(node.body)]
    if node.order_by:
        lines.append(f"ORDER BY {_list(node.order_by)}")
    if node.limit is not None:
        lines.append(f"LIMIT {sql_of(node.limit)}")
    if node.offset is not None:
        lines.append(f"OFFSET {sql_of(node.offset)}")
    return "\n".join(lines if len(lines) > 1 else [*lines, "LIMIT ALL"])


# --- relations -------------------------------------------------------------------------------------------------------


@sql_of.register
def _(node: qu.TableReference) -> str:
    return f"{sql_of(node.table)}{_hints(node.hints)}"


@sql_of.register
def _(node: qu.DerivedTable) -> str:
    return f"{'LATERAL ' * node.is_lateral}({sql_of(node.query)})"


@sql_of.register
def _(node: qu.TableFunction) -> str:
    return f"{'LATERAL ' * node.is_lateral}TABLE({sql_of(node.call)})"


@sql_of.register
def _(node: qu.Unnest) -> str:
    operands = ", ".join(
        sql_of(each.query) if isinstance(each, ex.ScalarQuery) else sql_of(each) for each in node.operands
    )
    return f"UNNEST({operands}){' WITH ORDINALITY' * node.with_ordinality}"


def _relation(node: qu.Relation) -> str:
    """The text of a relation that something stands behind."""
    return (
        f"({sql_of(node)})" if isinstance(node, qu.JoinRelation | qu.AliasedRelation | qu.TableSample) else sql_of(node)
    )


@sql_of.register
def _(node: qu.AliasedRelation) -> str:
    columns = f" {_names(node.columns)}" if node.columns else ""
    return f"{_relation(node.relation)} AS {sql_of(node.alias)}{columns}"


@sql_of.register
def _(node: qu.Snapshot) -> str:
    return f"{_relation(node.relation)} FOR SYSTEM_TIME AS OF {sql_of(node.time)}"


@sql_of.register
def _(node: qu.TableSample) -> str:
    method = "BERNOULLI" if node.is_bernoulli else "SYSTEM"
    seed = "" if node.seed is None else f" REPEATABLE ({node.seed})"
    return f"{sql_of(node.relation)} TABLESAMPLE {method} ({node.percentage:f}){seed}"


@sql_of.register
def _(node: qu.JoinRelation) -> str:
    joins: list[qu.JoinRelation] = []
    left: qu.Relation = node
    while isinstance(left, qu.JoinRelation):
        joins.append(left)
        left = left.left
    return sql_of(left) + "".join(map(_join, reversed(joins)))


def _join(node: qu.JoinRelation) -> str:
    right = f"({sql_of(node.right)})" if isinstance(node.right, qu.JoinRelation) else sql_of(node.right)
    if node.kind is qu.JoinKind.COMMA:
        return f",\n{right}"
    using = f" USING {_names(node.using)}" if node.using else ""
    return f"\n{'NATURAL ' * node.is_natural}{node.kind.value} JOIN {right}{_behind('ON', node.condition)}{using}"


@sql_of.register
def _(node: qu.PivotAggregate) -> str:
    return _aliased(sql_of(node.call), node.alias)


@sql_of.register
def _(node: qu.PivotValue) -> str:
    return _aliased(f"({_list(node.values)})", node.alias)


@sql_of.register
def _(node: qu.Pivot) -> str:
    inner = f"{_list(node.aggregates)} FOR {_names(node.axes)} IN ({_list(node.values)})"
    return f"{_relation(node.relation)} PIVOT ({inner})"


@sql_of.register
def _(node: qu.UnpivotValue) -> str:
    return f"{_names(node.columns)}{f' AS ({_list(node.values)})' if node.values else ''}"


@sql_of.register
def _(node: qu.Unpivot) -> str:
    inner = f"{_names(node.measures)} FOR {_names(node.axes)} IN ({_list(node.values)})"
    return f"{_relation(node.relation)} UNPIVOT {'INCLUDE NULLS ' * node.include_nulls}({inner})"


# --- MATCH_RECOGNIZE -------------------------------------------------------------------------------------------------


@sql_of.register
def _(node: qu.PatternVariable) -> str:
    return sql_of(node.name)


def _pattern_part(node: qu.RowPattern) -> str:
    is_group = isinstance(node, qu.PatternSequence | qu.PatternAlternatives | qu.PatternRepetition)
    return f"({sql_of(node)})" if is_group else sql_of(node)


@sql_of.register
def _(node: qu.PatternSequence) -> str:
    return " ".join(
        sql_of(part) if isinstance(part, qu.PatternRepetition) else _pattern_part(part) for part in node.parts
    )


@sql_of.register
def _(node: qu.PatternAlternatives) -> str:
    return " | ".join(
        _pattern_part(part) if isinstance(part, qu.PatternAlternatives) else sql_of(part) for part in node.parts
    )


@sql_of.register
def _(node: qu.PatternPermutation) -> str:
    return f"PERMUTE({_list(node.parts)})"


@sql_of.register
def _(node: qu.PatternExclusion) -> str:
    return f"{{- {sql_of(node.part)} -}}"


@sql_of.register
def _(node: qu.PatternRepetition) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    most = "" if node.most is None else node.most
    limits = signs.get((node.least, node.most)) or f"{{{node.least}, {most}}}"
    return f"{_pattern_part(node.part)}{limits}{'?' * node.is_reluctant}"


@sql_of.register
def _(node: qu.MatchMeasure) -> str:
    return f"{sql_of(node.expression)} AS {sql_of(node.alias)}"


@sql_of.register
def _(node: qu.MatchSubset) -> str:
    return f"{sql_of(node.name)} = {_names(node.variables)}"


@sql_of.register
def _(node: qu.MatchDefinition) -> str:
    return f"{sql_of(node.variable)} AS {sql_of(node.condition)}"


@sql_of.register
def _(node: qu.MatchRecognize) -> str:
    lines = []
    if node.partition_by:
        lines.append(f"PARTITION BY {_list(node.partition_by)}")
    if node.order_by:
        lines.append(f"ORDER BY {_list(node.order_by)}")
    if node.measures:
        lines.append(f"MEASURES {_list(node.measures)}")
    if node.all_rows is not None:
        lines.append("ALL ROWS PER MATCH" if node.all_rows else "ONE ROW PER MATCH")
    if node.after_match is not None:
        variable = "" if node.after_variable is None else f" {sql_of(node.after_variable)}"
        lines.append(f"AFTER MATCH SKIP {node.after_match.value}{variable}")
    within = _behind("WITHIN", node.within)
    lines.append(f"PATTERN ({'^ ' * node.at_begin}{sql_of(node.pattern)}{' $' * node.at_end}){within}")
    if node.subsets:
        lines.append(f"SUBSET {_list(node.subsets)}")
    lines.append(f"DEFINE {_list(node.definitions)}")
    return f"{_relation(node.relation)} MATCH_RECOGNIZE (\n" + "\n".join(lines) + "\n)"
