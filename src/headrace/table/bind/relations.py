"""FROM: tables, views, subqueries, joins, table functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.operators.join.results import JoinType
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expansion import place
from headrace.table.bind.expectations import expectations_of, options_of_connector
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.hints import JOIN_HINTS, bound_hints, lookup_hints, refuse_options, with_options
from headrace.table.bind.match import MatchBinder
from headrace.table.bind.scopes import Correlation, NamedRelation, Scope, Shared, correlation_of
from headrace.table.bind.table_functions import TableFunctionBinder, unnested
from headrace.table.bind.unpivot import UnpivotBinder
from headrace.table.catalog.objects import CatalogTable, CatalogView, Column, ColumnKind, ObjectPath
from headrace.table.functions.types import BOOLEAN, TIMESTAMPS, is_in
from headrace.table.logical.join_keys import with_columns
from headrace.table.logical.relations import (
    ALIAS,
    Filter,
    Hint,
    LogicalCorrelate,
    LogicalJoin,
    LogicalSort,
    LogicalWatermarkAssigner,
    MetadataRead,
    Project,
    Relation,
    Sample,
    Scan,
    Snapshot,
    Unnest,
    Values,
)
from headrace.table.logical.scalars import Call, CorrelatedRef, InputRef, Literal, Scalar, conjuncts, input_refs
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.logical.watermarks import watermark_options
from headrace.table.parse.tree import queries as sql
from headrace.table.parse.tree.node import Name, Path, SqlNode

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder


def table_relation(
    queries: "QueryBinder", path: ObjectPath, table: CatalogTable, hints: tuple[Hint, ...] = ()
) -> Relation:
    """The rows of a table, in the columns that queries see."""
    if isinstance(table.inline, Relation):
        return table.inline
    physical = [column for column in table.columns if column.kind is ColumnKind.PHYSICAL]
    metadata = [column for column in table.columns if column.kind is ColumnKind.METADATA]
    read = [*physical, *metadata]
    stored = Schema(tuple(column.as_field.materialized() for column in read))
    options = with_options(table.connector_options, hints)
    advance = watermark_options(str(path), dict(options), has_watermark=table.watermark is not None)
    scan = Scan(
        path,
        stored,
        options_of_connector(options),
        _key(table, read),
        tuple(MetadataRead(len(physical) + at, each.metadata_key) for at, each in enumerate(metadata)),
        table.partition_keys,
        hints,
        table.inline,
        expectations=expectations_of(queries, path, dict(options), stored),
    )
    relation: Relation = scan
    if read != list(table.columns):
        expressions = tuple(_column(queries, column, scan) for column in table.columns)
        relation = Project(scan, expressions, tuple(column.name for column in table.columns), is_of_table=True)
    if table.watermark is not None and queries.context.is_streaming:
        watermark = queries.bound_text(table.watermark.expression, relation.schema)
        rowtime = relation.schema.index(table.watermark.column)
        relation = LogicalWatermarkAssigner(relation, rowtime, watermark, advance)
    return relation


def _key(table: CatalogTable, read: list[Column]) -> tuple[int, ...]:
    names = [column.name for column in read]
    return () if table.primary_key is None else tuple(names.index(name) for name in table.primary_key.columns)


def _column(queries: "QueryBinder", column: Column, scan: Scan) -> Scalar:
    if column.kind is ColumnKind.COMPUTED:
        assert column.expression is not None
        return queries.bound_text(column.expression, scan.schema)
    index = scan.schema.index(column.name)
    return InputRef(index, type=scan.schema[index].type)


TRUE: Final = Literal(True, type=BOOLEAN.not_null())

_KINDS: Final = {
    sql.SqlJoinKind.INNER: JoinType.INNER,
    sql.SqlJoinKind.LEFT: JoinType.LEFT,
    sql.SqlJoinKind.RIGHT: JoinType.RIGHT,
    sql.SqlJoinKind.FULL: JoinType.FULL,
    sql.SqlJoinKind.CROSS: JoinType.INNER,
    sql.SqlJoinKind.COMMA: JoinType.INNER,
}


@dataclass(frozen=True)
class FromItem:
    """A relation of FROM with the names of its columns."""

    relation: Relation
    sources: tuple[NamedRelation, ...]
    shared: tuple[Shared, ...] = ()


class RelationBinder:
    """Binds the relations of one FROM.

    Args:
        queries: the binder of queries.
        parent: the scope of the outer query.
        hints: the hints of SELECT, which joins take theirs from.
    """

    def __init__(self, queries: "QueryBinder", parent: Scope | None, hints: tuple[Hint, ...] = ()) -> None:
        self.queries = queries
        self.hints = tuple(hint for hint in hints if hint.name in JOIN_HINTS)
        self.context: BindContext = queries.context
        self.parent = parent

    def bind(self, node: sql.SqlRelation) -> FromItem:
        """Bind an item of FROM."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise self.context.error(node, f"{type(node).__name__} is not supported yet")
        return rule(self, node)

    # --- tables ------------------------------------------------------------------------------------------------------

    def _table(self, node: sql.TableReference) -> FromItem:
        hints = bound_hints(self.context, node.hints)
        names = node.table.texts
        if len(names) == 1 and (query := self.queries.with_query(names[0])) is not None:
            refuse_options(self.context, node.table, node.hints)
            self.context.expansions.tables[place(node.table)] = (names[0],)
            return FromItem(query, (NamedRelation(names[0], query.schema),))
        path, table = self.find(node.table)
        self.context.expansions.tables[place(node.table)] = path
        if isinstance(table, CatalogView) or table.inline is not None:
            refuse_options(self.context, node.table, node.hints)
        relation = self.table(path, table, hints, node)
        return self._with_alias(FromItem(relation, (NamedRelation(path.name, relation.schema, 0, path),)))

    def table(
        self, path: ObjectPath, table: CatalogTable | CatalogView, hints: tuple[Hint, ...], node: SqlNode
    ) -> Relation:
        """The rows of a table, or of a view's query."""
        if isinstance(table, CatalogView):
            return self.queries.view(path, table, node)
        return table_relation(self.queries, path, table, hints)

    def find(self, node: Path) -> tuple[ObjectPath, CatalogTable | CatalogView]:
        """The table at a path.

        Raises:
            SqlValidationError: when there is none.
        """
        catalogs = self.context.catalogs
        for path in catalogs.candidates(node.texts):
            found = catalogs.table(path)
            if found is not None:
                return path, found
        raise self.context.missing_table(node, catalogs.qualify(node.texts))

    # --- queries and aliases -----------------------------------------------------------------------------------------

    def _derived(self, node: sql.DerivedTable) -> FromItem:
        alias = self.context.expansions.alias_of(node)
        relation = self.queries.query(node.query, self.parent)
        names = self.queries.named_columns(node.query, relation)
        if isinstance(relation, LogicalSort) and relation.limit is None and not relation.offset:
            relation = relation.input  # nothing outside sees its order
        return FromItem(relation, (NamedRelation(None, relation.schema.renamed(names), generated=alias),))

    def _aliased(self, node: sql.AliasedRelation) -> FromItem:
        self.context.expansions.aliased.add(place(node.relation))
        item = self.bind(node.relation)
        relation, schema = item.relation, item.relation.schema
        if len(item.sources) == 1:
            schema = item.sources[0].schema
        if node.columns:
            if len(node.columns) != len(schema):
                raise self.context.error(
                    node, f"'{node.alias}' names {len(node.columns)} columns, and the relation has {len(schema)}"
                )
            names = tuple(name.text for name in node.columns)
            if len(set(names)) < len(names):
                raise self.context.error(node, f"a column name is given twice in the list of '{node.alias}'")
            schema = relation.schema.renamed(names)
            relation = renamed(relation, schema.names)
        elif len(schema) == 1 and _takes_alias(node.relation):
            schema = schema.renamed((node.alias.text,))
            relation = renamed(relation, schema.names)
        return self._with_alias(FromItem(relation, (NamedRelation(node.alias.text, schema),)))

    def _snapshot(self, node: sql.SnapshotRelation) -> FromItem:
        """A table at a time of the row to the left."""
        item = self.bind(node.relation)
        period = ExpressionBinder(self.queries, self._call_scope(), "FOR SYSTEM_TIME AS OF").bind(node.time)
        if not is_in(period.type, TIMESTAMPS):
            raise self.context.error(node.time, f"FOR SYSTEM_TIME AS OF expects a timestamp, and not {period.type}")
        if not any(isinstance(each, CorrelatedRef) for each in period.walk()):
            advice = "Write FOR SYSTEM_TIME AS OF left.time, a time attribute of the relation to the left."
            raise self.context.error(node.time, "tables cannot be read as of a constant time", advice)
        if self.context.is_streaming and isinstance(period, CorrelatedRef) and period.time is None:
            self.context.defer(
                node.time,
                f"FOR SYSTEM_TIME AS OF requires a time attribute, but '{node.time}' is a plain {period.type}",
                "A column is one by WATERMARK FOR, or by PROCTIME() to look rows up; computing with it makes it a "
                "plain one.",
            )
        versions = item.relation.without_alias() if isinstance(item.relation, Scan) else item.relation
        return replace(item, relation=Snapshot(versions, period))

    def _sample(self, node: sql.TableSample) -> FromItem:
        item = self.bind(node.relation)
        if not node.is_bernoulli and 0 < node.percentage < 100:
            self.context.defer(node, "TABLESAMPLE SYSTEM is not supported", "Write TABLESAMPLE BERNOULLI (...).")
        sample = Sample(item.relation, node.is_bernoulli, str(node.percentage), node.seed)
        return replace(item, relation=sample)

    def _match(self, node: sql.MatchRecognize) -> FromItem:
        item = self.bind(node.relation)
        alias = item.sources[0].alias if item.sources else None
        relation = MatchBinder(self.queries, node, item.relation, alias, self._call_scope()).bind()
        return FromItem(relation, (NamedRelation(None, relation.schema),))

    def _pivot(self, node: sql.Pivot) -> FromItem:
        self.bind(node.relation)
        raise self.context.unplanned(node, "PIVOT is not supported", "Write SUM(x) FILTER (WHERE ...) for each column.")

    def _unpivot(self, node: sql.Unpivot) -> FromItem:
        relation = UnpivotBinder(self.queries, node, self.bind(node.relation).relation).bind()
        return FromItem(relation, (NamedRelation(None, relation.schema),))

    # --- table functions ---------------------------------------------------------------------------------------------

    def _table_function(self, node: sql.TableFunctionCall) -> FromItem:
        alias = self.context.expansions.alias_of(node)
        relation = TableFunctionBinder(self.queries, self._call_scope()).bind(node.call)
        return FromItem(relation, (NamedRelation(None, relation.schema, generated=alias),))

    def _unnest(self, node: sql.UnnestRelation) -> FromItem:
        relation = unnested(ExpressionBinder(self.queries, self._call_scope(), "UNNEST"), node)
        return FromItem(relation, (NamedRelation(None, relation.schema),))

    def _call_scope(self) -> Scope:
        """The scope of a call's arguments: columns of the relations to the left, and of outer queries."""
        return Scope((), Schema(()), self.context.correlation(), self.parent)

    # --- joins -------------------------------------------------------------------------------------------------------

    def _join(self, node: sql.JoinRelation) -> FromItem:
        left = self.bind(node.left)
        correlation = self.context.correlation()
        outer = Scope(left.sources, left.relation.schema, correlation, self.parent, left.shared)
        right = RelationBinder(self.queries, outer if _may_correlate(node.right) else self.parent, self.hints).bind(
            node.right
        )
        return self._joined(node, left, right, correlation)

    def _joined(self, node: sql.JoinRelation, left: FromItem, right: FromItem, correlation: Correlation) -> FromItem:
        kind = _KINDS[node.kind]
        width = len(left.relation.schema)
        self._check_aliases(node.right, left.sources, right.sources)
        sources = left.sources + tuple(source.shifted(width) for source in right.sources)
        pairs = Schema(left.relation.schema.fields + right.relation.schema.fields)
        scope = Scope(sources, pairs, self.context.correlation(), self.parent)
        shared, condition = self._join_condition(node, left, right, scope)
        if correlation.is_used:
            self._check_temporal(node, right.relation, condition, width)
            relation = self._correlated(node, left.relation, right, kind, correlation, condition)
        else:
            ttl = self._state_ttl(left), self._state_ttl(right)
            around = correlation_of((condition,), scope.correlation)
            aliases = _alias(left), _alias(right)
            join = LogicalJoin(left.relation, right.relation, kind, condition, self.hints, ttl, around, aliases)
            relation = join if around else with_columns(join)
        moved = tuple(replace(each, left=each.left + width, right=each.right + width) for each in right.shared)
        return FromItem(relation, sources, left.shared + moved + shared)

    def _with_alias(self, item: FromItem) -> FromItem:
        """A relation, with a hint of its name where it is a table, and the query has hints."""
        scan, (source, *_) = item.relation, item.sources
        if not isinstance(scan, Scan) or not self.hints:
            return item
        hints = (*scan.without_alias().hints, Hint(ALIAS, items=(source.alias or "",)))
        return replace(item, relation=replace(scan, hints=hints))

    def _check_aliases(
        self, node: sql.SqlRelation, left: Sequence[NamedRelation], right: Sequence[NamedRelation]
    ) -> None:
        """Refuse two relations of one name, to whose columns no name could refer."""
        taken = {each.alias for each in left}
        for name in (each.alias for each in right):
            if name is not None and name in taken:
                raise self.context.error(node, f"FROM names two relations '{name}'", "Give one of them an alias.")

    def _state_ttl(self, item: FromItem) -> str | None:
        """The time to live that the hint ``STATE_TTL`` gives an input that is a single relation."""
        if len(item.sources) != 1:
            return None
        options = (pair for hint in self.hints if hint.name == "STATE_TTL" for pair in hint.options)
        return next((value for key, value in options if key.rpartition(".")[2] == item.sources[0].alias), None)

    def _join_condition(
        self, node: sql.JoinRelation, left: FromItem, right: FromItem, scope: Scope
    ) -> tuple[tuple[Shared, ...], Scalar]:
        binder = ExpressionBinder(self.queries, scope, "ON")
        if node.condition is not None:
            return (), binder.condition(node.condition)
        names = list(node.using)
        if node.is_natural:
            common = [name for name in left.relation.schema.names if name in right.relation.schema.names]
            names = [Name(name, start=node.start, end=node.end) for name in common]
        if not names:
            if node.kind not in (sql.SqlJoinKind.COMMA, sql.SqlJoinKind.CROSS) and not node.is_natural:
                raise self.context.error(node, f"{node.kind.value} JOIN needs ON or USING", "Or write CROSS JOIN.")
            return (), TRUE
        shared, terms = [], []
        for name in names:
            one, other = self._using(name, left), self._using(name, right) + len(left.relation.schema)
            terms.append(binder.call("=", (scope.column(one), scope.column(other)), name))
            shared.append(Shared(name.text, one, other, node.is_natural))
        return tuple(shared), terms[0] if len(terms) == 1 else binder.call("AND", tuple(terms), node)

    def _using(self, name: Name, item: FromItem) -> int:
        """The column of an input that USING names: the first one, if joins below it have merged several."""
        names = item.relation.schema.names
        if name.text not in names:
            raise self.context.error(
                name, f"column '{name}' of USING is not found on one side", misspelt(name.text, names)
            )
        return names.index(name.text)

    def _correlated(
        self,
        node: sql.JoinRelation,
        left: Relation,
        item: FromItem,
        kind: JoinType,
        correlation: Correlation,
        condition: Scalar,
    ) -> Relation:
        right = item.relation
        if kind not in (JoinType.INNER, JoinType.LEFT):
            raise self.context.unplanned(node, f"a lateral relation cannot be on the right of a {node.kind.value} JOIN")
        hints = lookup_hints(self.hints, item.sources[0].alias) if isinstance(right, Snapshot) else self.hints
        if condition != TRUE:
            right = Filter(right, _inside(condition, left, correlation))
        return LogicalCorrelate(left, right, correlation.name, kind, tuple(sorted(correlation.columns)), hints)

    def _check_temporal(self, node: sql.JoinRelation, right: Relation, condition: Scalar, width: int) -> None:
        """Check that an event-time temporal join compares the primary key of the table."""
        if not isinstance(right, Snapshot) or right.period.time is not TimeAttribute.ROWTIME:
            return
        equalities = [each for each in conjuncts(condition) if _is_equality(each, width)]
        if not equalities:
            self.context.defer(
                node, "a temporal join needs columns of both sides that are equal", "Write ON left.key = right.key."
            )
        scan = _scan_below(right.input)
        if scan is None:
            return
        names = right.schema.names
        key = {scan.columns.names[index] for index in scan.primary_key}
        joined = {names[index - width] for each in equalities for index in _columns_of(each) if index >= width}
        if not key or not key <= joined:
            self.context.defer(
                node.right,
                "an event-time temporal join needs the primary key of the versioned table in its condition",
                "Define PRIMARY KEY (...) NOT ENFORCED on the table, and join by all of its columns.",
            )


def _alias(item: FromItem) -> str | None:
    """The name of a single relation."""
    return item.sources[0].alias if len(item.sources) == 1 else None


def _scan_below(relation: Relation) -> Scan | None:
    """The scan of a table below its computed columns and watermark; None for other relations."""
    while isinstance(relation, LogicalWatermarkAssigner) or (isinstance(relation, Project) and relation.is_of_table):
        relation = relation.input
    return relation if isinstance(relation, Scan) else None


def _columns_of(equality: Scalar) -> list[int]:
    """The columns that an equality compares as they are."""
    assert isinstance(equality, Call)
    return [operand.index for operand in equality.operands if isinstance(operand, InputRef)]


def _is_equality(condition: Scalar, width: int) -> bool:
    if not isinstance(condition, Call) or condition.function != "=":
        return False
    sides = [{index < width for index in input_refs(operand)} for operand in condition.operands]
    return sorted(map(sorted, sides)) == [[False], [True]]


def _inside(condition: Scalar, left: Relation, correlation: Correlation) -> Scalar:
    """The condition of a lateral join, over the rows on the right alone."""
    width = len(left.schema)

    def moved(scalar: Scalar) -> Scalar:
        if not isinstance(scalar, InputRef):
            return scalar
        if scalar.index >= width:
            return replace(scalar, index=scalar.index - width)
        correlation.columns.add(scalar.index)
        name = left.schema[scalar.index].name
        return CorrelatedRef(correlation.name, scalar.index, name, type=scalar.type, time=scalar.time)

    return condition.transform(moved)


def _takes_alias(node: sql.SqlRelation) -> bool:
    """Return whether the alias of a relation with one column also renames the column."""
    return isinstance(node, sql.UnnestRelation) or (
        isinstance(node, sql.DerivedTable) and isinstance(node.query, sql.ValuesQuery)
    )


def _may_correlate(node: sql.SqlRelation) -> bool:
    """Return whether a relation may refer to columns of those to its left."""
    if isinstance(node, sql.AliasedRelation | sql.SnapshotRelation):
        return isinstance(node, sql.SnapshotRelation) or _may_correlate(node.relation)
    if isinstance(node, sql.DerivedTable):
        return node.is_lateral
    return isinstance(node, sql.UnnestRelation | sql.TableFunctionCall)


def renamed(relation: Relation, names: tuple[str, ...]) -> Relation:
    """The relation with renamed columns."""
    if relation.schema.names == names:
        return relation
    if isinstance(relation, Values | Unnest):
        return replace(relation, columns=relation.columns.renamed(names))
    return Project(relation, tuple(map(relation.column, range(len(names)))), names)


_Rule = Callable[[Any, Any], FromItem]
_RULES: Final[dict[type, _Rule]] = {
    sql.TableReference: RelationBinder._table,
    sql.DerivedTable: RelationBinder._derived,
    sql.AliasedRelation: RelationBinder._aliased,
    sql.JoinRelation: RelationBinder._join,
    sql.TableFunctionCall: RelationBinder._table_function,
    sql.UnnestRelation: RelationBinder._unnest,
    sql.SnapshotRelation: RelationBinder._snapshot,
    sql.MatchRecognize: RelationBinder._match,
    sql.TableSample: RelationBinder._sample,
    sql.Pivot: RelationBinder._pivot,
    sql.Unpivot: RelationBinder._unpivot,
}
