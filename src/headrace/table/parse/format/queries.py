"""Queries and relations as text."""

from headrace.table.parse.format.expressions import behind, listed, literal, names_of, sql_of
from headrace.table.parse.tree import expressions as ex
from headrace.table.parse.tree import queries as qu
from headrace.table.parse.tree.node import Name, QueryExpression


@sql_of.register
def _(node: qu.SqlHint) -> str:
    inner = ", ".join([f"{literal(key)} = {literal(value)}" for key, value in node.options] or map(literal, node.items))
    return f"{sql_of(node.name)}({inner})"


def _hints(hints: tuple[qu.SqlHint, ...]) -> str:
    return f" /*+ {listed(hints)} */" if hints else ""


def _quantifier(quantifier: ex.SetQuantifier | None) -> str:
    return "" if quantifier is None else f" {quantifier.value}"


def _aliased(text: str, alias: Name | None) -> str:
    return text if alias is None else f"{text} AS {sql_of(alias)}"


@sql_of.register
def _(node: qu.SelectItem) -> str:
    return _aliased(sql_of(node.expression), node.alias)


@sql_of.register
def _(node: qu.GroupingElements) -> str:
    return f"{node.kind.value}({listed(node.elements)})"


@sql_of.register
def _(_: qu.EmptyGrouping) -> str:
    return "()"


@sql_of.register
def _(node: qu.GroupBy) -> str:
    return f"GROUP BY{_quantifier(node.quantifier)} {listed(node.elements)}"


@sql_of.register
def _(node: qu.NamedWindow) -> str:
    return f"{sql_of(node.name)} AS {sql_of(node.window)}"


@sql_of.register
def _(node: qu.SelectQuery) -> str:
    lines = [f"SELECT{_hints(node.hints)}{_quantifier(node.quantifier)} {listed(node.items)}"]
    if node.relation is not None:
        lines.append(f"FROM {sql_of(node.relation)}")
    if node.where is not None:
        lines.append(f"WHERE {sql_of(node.where)}")
    if node.group_by is not None:
        lines.append(sql_of(node.group_by))
    if node.having is not None:
        lines.append(f"HAVING {sql_of(node.having)}")
    if node.windows:
        lines.append(f"WINDOW {listed(node.windows)}")
    if node.qualify is not None:
        lines.append(f"QUALIFY {sql_of(node.qualify)}")
    return "\n".join(lines)


def _row(items: tuple[ex.SqlExpression, ...]) -> str:
    return f"ROW({listed(items)})"


@sql_of.register
def _(node: qu.ValuesQuery) -> str:
    return "VALUES " + ",\n".join(map(_row, node.rows))


@sql_of.register
def _(node: qu.TableQuery) -> str:
    return f"TABLE {sql_of(node.table)}"


def _part(node: QueryExpression) -> str:
    simple = isinstance(node, (qu.SelectQuery, qu.ValuesQuery, qu.TableQuery))
    return sql_of(node) if simple else f"({sql_of(node)})"


def _is_intersection(node: QueryExpression) -> bool:
    return isinstance(node, qu.SqlSetOperation) and node.operator is qu.SqlSetOperator.INTERSECT


@sql_of.register
def _(node: qu.SqlSetOperation) -> str:
    rights: list[qu.SqlSetOperation] = []
    left: QueryExpression = node
    while isinstance(left, qu.SqlSetOperation):
        rights.append(left)
        left = left.left
    text = _part(left)
    for number, operation in enumerate(reversed(rights)):
        is_intersection = operation.operator is qu.SqlSetOperator.INTERSECT
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
    columns = f" {names_of(node.columns)}" if node.columns else ""
    return f"{sql_of(node.name)}{columns} AS ({sql_of(node.query)})"


@sql_of.register
def _(node: qu.WithQuery) -> str:
    body = sql_of(node.body) if isinstance(node.body, qu.SqlSetOperation) else _part(node.body)
    return f"WITH {'RECURSIVE ' * node.is_recursive}{listed(node.items)} {body}"


@sql_of.register
def _(node: qu.OrderedQuery) -> str:
    lines = [f"({sql_of(node.body)})" if isinstance(node.body, qu.OrderedQuery) else sql_of(node.body)]
    if node.order_by:
        lines.append(f"ORDER BY {listed(node.order_by)}")
    if node.offset is not None:
        lines.append(f"OFFSET {sql_of(node.offset)} ROWS")
    if node.limit is not None:
        lines.append(f"FETCH NEXT {sql_of(node.limit)} ROWS ONLY")
    return "\n".join(lines if len(lines) > 1 else [*lines, "LIMIT ALL"])


# --- relations -------------------------------------------------------------------------------------------------------


@sql_of.register
def _(node: qu.TableReference) -> str:
    return f"{sql_of(node.table)}{_hints(node.hints)}"


@sql_of.register
def _(node: qu.DerivedTable) -> str:
    return f"{'LATERAL ' * node.is_lateral}({sql_of(node.query)})"


@sql_of.register
def _(node: qu.TableFunctionCall) -> str:
    return f"{'LATERAL ' * node.is_lateral}TABLE({sql_of(node.call)})"


@sql_of.register
def _(node: qu.UnnestRelation) -> str:
    operands = ", ".join(
        sql_of(each.query) if isinstance(each, ex.ScalarQuery) else sql_of(each) for each in node.operands
    )
    return f"UNNEST({operands}){' WITH ORDINALITY' * node.with_ordinality}"


def _relation(node: qu.SqlRelation) -> str:
    """The text of a relation that is followed by a clause."""
    return f"({sql_of(node)})" if isinstance(node, qu.JoinRelation) else sql_of(node)


@sql_of.register
def _(node: qu.AliasedRelation) -> str:
    columns = f" {names_of(node.columns)}" if node.columns else ""
    return f"{_relation(node.relation)} AS {sql_of(node.alias)}{columns}"


@sql_of.register
def _(node: qu.SnapshotRelation) -> str:
    return f"{_relation(node.relation)} FOR SYSTEM_TIME AS OF {sql_of(node.time)}"


@sql_of.register
def _(node: qu.TableSample) -> str:
    method = "BERNOULLI" if node.is_bernoulli else "SYSTEM"
    seed = "" if node.seed is None else f" REPEATABLE ({node.seed})"
    return f"{sql_of(node.relation)} TABLESAMPLE {method} ({node.percentage:f}){seed}"


@sql_of.register
def _(node: qu.JoinRelation) -> str:
    joins: list[qu.JoinRelation] = []
    left: qu.SqlRelation = node
    while isinstance(left, qu.JoinRelation):
        joins.append(left)
        left = left.left
    return sql_of(left) + "".join(map(_join, reversed(joins)))


def _join(node: qu.JoinRelation) -> str:
    right = f"({sql_of(node.right)})" if isinstance(node.right, qu.JoinRelation) else sql_of(node.right)
    if node.kind is qu.SqlJoinKind.COMMA:
        return f",\n{right}"
    using = f" USING {names_of(node.using)}" if node.using else ""
    return f"\n{'NATURAL ' * node.is_natural}{node.kind.value} JOIN {right}{behind('ON', node.condition)}{using}"


@sql_of.register
def _(node: qu.PivotAggregate) -> str:
    return _aliased(sql_of(node.call), node.alias)


@sql_of.register
def _(node: qu.PivotValue) -> str:
    return _aliased(f"({listed(node.values)})", node.alias)


@sql_of.register
def _(node: qu.Pivot) -> str:
    inner = f"{listed(node.aggregates)} FOR {names_of(node.axes)} IN ({listed(node.values)})"
    return f"{_relation(node.relation)} PIVOT ({inner})"


@sql_of.register
def _(node: qu.UnpivotValue) -> str:
    return f"{names_of(node.columns)}{f' AS ({listed(node.values)})' if node.values else ''}"


@sql_of.register
def _(node: qu.Unpivot) -> str:
    inner = f"{names_of(node.measures)} FOR {names_of(node.axes)} IN ({listed(node.values)})"
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
    return f"PERMUTE({listed(node.parts)})"


@sql_of.register
def _(node: qu.RowPatternExclusion) -> str:
    return f"{{- {sql_of(node.part)} -}}"


@sql_of.register
def _(node: qu.PatternRepetition) -> str:
    signs: dict[tuple[int | None, int | None], str] = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    most = "" if node.most is None else node.most
    least = "" if node.least is None else node.least
    limits = signs.get((node.least, node.most)) or f"{{{least}, {most}}}"
    return f"{_pattern_part(node.part)}{limits}{'?' * node.is_reluctant}"


@sql_of.register
def _(node: qu.MatchMeasure) -> str:
    return f"{sql_of(node.expression)} AS {sql_of(node.alias)}"


@sql_of.register
def _(node: qu.MatchSubset) -> str:
    return f"{sql_of(node.name)} = {names_of(node.variables)}"


@sql_of.register
def _(node: qu.MatchDefinition) -> str:
    return f"{sql_of(node.variable)} AS {sql_of(node.condition)}"


@sql_of.register
def _(node: qu.MatchRecognize) -> str:
    lines = []
    if node.partition_by:
        lines.append(f"PARTITION BY {listed(node.partition_by)}")
    if node.order_by:
        lines.append(f"ORDER BY {listed(node.order_by)}")
    if node.measures:
        lines.append(f"MEASURES {listed(node.measures)}")
    if node.all_rows is not None:
        option = "" if node.all_rows_option is None else f" {node.all_rows_option.value}"
        lines.append(f"ALL ROWS PER MATCH{option}" if node.all_rows else "ONE ROW PER MATCH")
    if node.after_match is not None:
        variable = "" if node.after_variable is None else f" {sql_of(node.after_variable)}"
        lines.append(f"AFTER MATCH SKIP {node.after_match.value}{variable}")
    within = behind("WITHIN", node.within)
    lines.append(f"PATTERN ({'^ ' * node.at_begin}{sql_of(node.pattern)}{' $' * node.at_end}){within}")
    if node.subsets:
        lines.append(f"SUBSET {listed(node.subsets)}")
    lines.append(f"DEFINE {listed(node.definitions)}")
    return f"{_relation(node.relation)} MATCH_RECOGNIZE (\n" + "\n".join(lines) + "\n)"
