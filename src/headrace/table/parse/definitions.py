"""``CREATE``, ``ALTER`` and ``DROP``."""

from collections.abc import Callable
from typing import Final

from headrace.table.parse.precedence import OPERAND
from headrace.table.parse.queries import QueryParser
from headrace.table.parse.tree.definitions import (
    ComputedColumn,
    Constraint,
    CreateCatalog,
    CreateConnection,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    DistributionKind,
    Drop,
    FunctionLanguage,
    LikeFeature,
    LikeOption,
    MergingStrategy,
    MetadataColumn,
    NamedColumn,
    ObjectKind,
    Option,
    Partition,
    PartitionValue,
    PhysicalColumn,
    RefreshMode,
    StartModeClause,
    StartModeKind,
    Statement,
    TableDistribution,
    TableElement,
    TableLike,
    Watermark,
)
from headrace.table.parse.tree.expressions import SqlExpression
from headrace.table.parse.tree.node import Name, Path, QueryExpression
from headrace.table.parse.tree.types import TypeSpec

_LANGUAGES: Final = {each.value: each for each in FunctionLanguage}
_FEATURES: Final = {each.value: each for each in LikeFeature}
_STRATEGIES: Final = {each.value: each for each in MergingStrategy}
_REFRESH_MODES: Final = {each.value: each for each in RefreshMode}
_START_MODES: Final = {each.value: each for each in StartModeKind}
CONSTRAINT_WORDS: Final = ("PRIMARY", "UNIQUE", "CONSTRAINT")
OBJECTS: Final = {kind.value: kind for kind in ObjectKind if kind is not ObjectKind.MATERIALIZED_TABLE}
"""Kinds of objects by keyword; ``MATERIALIZED TABLE`` has two words."""


class DefinitionParser(QueryParser):
    """Parses DDL statements, by tables of their leading keywords."""

    __slots__ = ()

    # --- clauses -----------------------------------------------------------------------------------------------------

    def if_exists(self) -> bool:
        return self.accept_all("IF", "EXISTS")

    def if_not_exists(self) -> bool:
        return self.accept_all("IF", "NOT", "EXISTS")

    def options(self) -> tuple[Option, ...]:
        """``('key' = 'value', ...)``, which may be empty."""
        self.expect("(")
        found = () if self.at(")") else self.some(self._option)
        self.expect(")")
        return found

    def _option(self) -> Option:
        start = self.start
        key = self.text()
        self.expect("=")
        return Option(key, self.text(), start=start, end=self.end)

    def with_options(self) -> tuple[Option, ...]:
        """``WITH`` and options, or none."""
        return self.options() if self.accept("WITH") else ()

    def _keys(self) -> tuple[str, ...]:
        self.expect("(")
        found = () if self.at(")") else self.some(self.text)
        self.expect(")")
        return found

    def comment(self) -> str | None:
        """``COMMENT 'text'``, or nothing."""
        return self.text() if self.accept("COMMENT") else None

    def partition(self) -> Partition:
        """``(column = literal, ...)``."""
        return self.in_parentheses(self._partition_value)

    def _partition_value(self) -> PartitionValue:
        column = self.name()
        value = self.literal() if self.accept("=") else None
        return PartitionValue(column, value, start=column.start, end=self.end)

    def _full_partition_value(self) -> PartitionValue:
        column = self.name()
        self.expect("=")
        return PartitionValue(column, self.literal(), start=column.start, end=self.end)

    def literal(self) -> SqlExpression:
        """A literal; a number may have a sign."""
        return self.expression(OPERAND)

    def _optional_partition(self) -> Partition:
        return self.partition() if self.accept("PARTITION") else ()

    def _partitioned_by(self) -> tuple[Name, ...]:
        if not self.accept("PARTITIONED"):
            return ()
        self.expect("BY")
        return self.names_in_parentheses()

    def _optional_query(self) -> QueryExpression | None:
        return self.query() if self.accept("AS") else None

    def _distribution(self) -> TableDistribution:
        start = self.start
        kind = None
        columns: tuple[Name, ...] = ()
        if self.accept("BY"):
            kind = self.choose_optional({"HASH": DistributionKind.HASH, "RANGE": DistributionKind.RANGE})
            columns = self.names_in_parentheses()
        elif not self.at("INTO"):
            self.fail("BY", "INTO")
        buckets = None
        if self.accept("INTO"):
            buckets = self.integer()
            self.expect("BUCKETS")
        return TableDistribution(kind, columns, buckets, start=start, end=self.end)

    def _optional_distribution(self) -> TableDistribution | None:
        return self._distribution() if self.accept("DISTRIBUTED") else None

    # --- columns and keys --------------------------------------------------------------------------------------------

    def _elements(self) -> tuple[TableElement, ...]:
        """Columns, all of them with types, or without types when a query defines these."""
        if not self.at("("):
            return ()
        elements = self.in_parentheses(self._element)
        named = [isinstance(element, NamedColumn) for element in elements]
        if any(named) and not all(named):
            self.refuse("either all columns have types, or none has", "Give each column a type, or none.")
        return elements

    def _element(self) -> TableElement:
        if self.at_any(CONSTRAINT_WORDS):
            return self._constraint()
        if self.at("WATERMARK"):
            return self._watermark()
        path = self.path()
        if self.at_any((",", ")")):
            return NamedColumn(path, start=path.start, end=path.end)
        return self._column(path)

    def _column(self, path: Path) -> TableElement:
        if self.accept("AS"):
            expression = self.expression()
            return ComputedColumn(path, expression, self.comment(), start=path.start, end=self.end)
        kind = self.data_type()
        if self.accept("METADATA"):
            return self._metadata(path, kind)
        constraint = self._column_constraint(path) if self.at_any(CONSTRAINT_WORDS) else None
        return PhysicalColumn(path, kind, constraint, self.comment(), start=path.start, end=self.end)

    def _metadata(self, path: Path, kind: TypeSpec) -> MetadataColumn:
        key = self.text() if self.accept("FROM") else None
        is_virtual = self.accept("VIRTUAL")
        return MetadataColumn(path, kind, key, is_virtual, self.comment(), start=path.start, end=self.end)

    def _column_constraint(self, path: Path) -> Constraint:
        start = self.start
        name, is_primary = self._constraint_head()
        enforced = self._enforced()
        return Constraint(name, is_primary, path.names[-1:], enforced, start=start, end=self.end)

    def _constraint(self) -> Constraint:
        start = self.start
        name, is_primary = self._constraint_head()
        columns = self.names_in_parentheses()
        return Constraint(name, is_primary, columns, self._enforced(), start=start, end=self.end)

    def _constraint_head(self) -> tuple[Name | None, bool]:
        name = self.name() if self.accept("CONSTRAINT") else None
        is_primary = self.choose({"PRIMARY": True, "UNIQUE": False})
        if is_primary:
            self.expect("KEY")
        return name, is_primary

    def _enforced(self) -> bool | None:
        if self.accept("ENFORCED"):
            return True
        return False if self.accept_all("NOT", "ENFORCED") else None

    def _watermark(self) -> Watermark:
        start = self.start
        self.expect("WATERMARK", "FOR")
        column = self.path()
        self.expect("AS")
        return Watermark(column, self.expression(), start=start, end=self.end)

    # --- CREATE ------------------------------------------------------------------------------------------------------

    def create(self) -> Statement:
        """``CREATE``, of any object."""
        start = self.start
        self.expect("CREATE")
        if self.at("OR") and self.ahead() == "ALTER":
            self.expect("OR", "ALTER", "MATERIALIZED", "TABLE")
            return self._materialized_table(start, or_alter=True)
        replace = self.accept_all("OR", "REPLACE")
        temporary = self.accept("TEMPORARY")
        system = self._system(temporary)
        if not (replace or temporary) and self.accept("MATERIALIZED"):
            self.expect("TABLE")
            return self._materialized_table(start, or_alter=False)
        maker = self.choose(_CREATED)
        return maker(self, start, _Prefix(replace, temporary, system))

    def _system(self, temporary: bool) -> bool:
        """``SYSTEM``, which requires a temporary function or connection."""
        if not self.at("SYSTEM"):
            return False
        if not temporary:
            self.refuse("what is of the system is temporary", "Write TEMPORARY before SYSTEM.")
        self.advance()
        if not self.at_any(("FUNCTION", "CONNECTION")):
            self.fail("FUNCTION", "CONNECTION")
        return True

    def replace_table(self) -> Statement:
        """``REPLACE TABLE ... AS query``."""
        start = self.start
        self.expect("REPLACE")
        temporary = self.accept("TEMPORARY")
        self.expect("TABLE")
        return self._table_definition(start, _Prefix(True, temporary, False), must_exist=True)

    def _create_table(self, start: int, prefix: "_Prefix") -> Statement:
        return self._table_definition(start, prefix)

    def _table_definition(self, start: int, prefix: "_Prefix", *, must_exist: bool = False) -> Statement:
        not_exists = self.if_not_exists()
        table = self.path()
        clauses = self._table_clauses()
        like = self._like_table() if not must_exist and self.at("LIKE") else None
        if must_exist and not self.at("AS"):
            self.fail("AS")
        query = self._optional_query() if like is None else None
        if query is None and clauses[0] and isinstance(clauses[0][0], NamedColumn):
            self.refuse("columns have types where no query gives them", "Give each column a type, or add AS SELECT ...")
        return CreateTable(
            table,
            *clauses,
            like,
            query,
            prefix.temporary,
            not_exists,
            prefix.replace,
            must_exist,
            start=start,
            end=self.end,
        )

    def _table_clauses(
        self,
    ) -> tuple[tuple[TableElement, ...], str | None, TableDistribution | None, tuple[Name, ...], tuple[Option, ...]]:
        """The elements, comment, distribution, partition keys and options that tables of all kinds have."""
        return (
            self._elements(),
            self.comment(),
            self._optional_distribution(),
            self._partitioned_by(),
            self.with_options(),
        )

    def _like_table(self) -> TableLike:
        start = self.start
        self.expect("LIKE")
        table = self.path()
        options: list[LikeOption] = []
        if self.accept("("):
            while not options or not self.at(")"):
                options.append(self._like_option())
            self.expect(")")
        return TableLike(table, tuple(options), start=start, end=self.end)

    def _like_option(self) -> LikeOption:
        start = self.start
        strategy = self.choose(_STRATEGIES)
        return LikeOption(strategy, self.choose(_FEATURES), start=start, end=self.end)

    def _materialized_table(self, start: int, *, or_alter: bool) -> Statement:
        table = self.path()
        clauses = self._table_clauses()
        start_mode = self._start_mode() if self.accept("START_MODE") else None
        freshness = self._freshness() if self.accept("FRESHNESS") else None
        mode = self._refresh_mode() if self.accept("REFRESH_MODE") else None
        self.expect("AS")
        query = self.query()
        return CreateMaterializedTable(
            table,
            query,
            *clauses,
            freshness,
            mode,
            start_mode,
            or_alter,
            start=start,
            end=self.end,
        )

    def _freshness(self) -> SqlExpression:
        self.expect("=")
        return self.expression()

    def _start_mode(self) -> StartModeClause:
        self.expect("=")
        start = self.start
        kind = self.choose(_START_MODES)
        argument = None
        if self.accept("("):
            argument = self.expression()
            self.expect(")")
        return StartModeClause(kind, argument, start=start, end=self.end)

    def _refresh_mode(self) -> RefreshMode:
        self.expect("=")
        return self.choose(_REFRESH_MODES)

    def _create_view(self, start: int, prefix: "_Prefix") -> Statement:
        not_exists = self.if_not_exists()
        view = self.path()
        columns = self.optional_names()
        comment = self.comment()
        self.expect("AS")
        query = self.query()
        return CreateView(
            view, query, columns, comment, prefix.temporary, not_exists, prefix.replace, start=start, end=self.end
        )

    def _create_catalog(self, start: int, _: "_Prefix") -> Statement:
        not_exists = self.if_not_exists()
        catalog = self.name()
        comment = self.comment()
        return CreateCatalog(catalog, comment, self.with_options(), not_exists, start=start, end=self.end)

    def _create_database(self, start: int, _: "_Prefix") -> Statement:
        not_exists = self.if_not_exists()
        database = self.path()
        comment = self.comment()
        return CreateDatabase(database, comment, self.with_options(), not_exists, start=start, end=self.end)

    def _create_function(self, start: int, prefix: "_Prefix") -> Statement:
        not_exists = self.if_not_exists()
        function = self._simple_path() if prefix.system else self.path()
        self.expect("AS")
        class_name = self.text()
        language = self._language()
        if language is FunctionLanguage.PYTHON and self.at("USING"):
            self.refuse("functions in Python come from no JAR", "Leave USING out.")
        jars = self.some(self._jar) if self.accept("USING") else ()
        options = self.with_options()
        return CreateFunction(
            function,
            class_name,
            language,
            jars,
            options,
            prefix.temporary,
            prefix.system,
            not_exists,
            start=start,
            end=self.end,
        )

    def _language(self) -> FunctionLanguage | None:
        return self.choose(_LANGUAGES) if self.accept("LANGUAGE") else None

    def _jar(self) -> str:
        self.choose({"JAR": None, "ARTIFACT": None})
        return self.text()

    def _simple_path(self) -> Path:
        name = self.name()
        return Path((name,), start=name.start, end=name.end)

    def _create_model(self, start: int, prefix: "_Prefix") -> Statement:
        not_exists = self.if_not_exists()
        model = self.path()
        inputs = self.in_parentheses(self._element) if self.accept("INPUT") else ()
        outputs = self.in_parentheses(self._element) if self.accept("OUTPUT") else ()
        comment = self.comment()
        options = self.with_options()
        if not options:
            self.refuse("a model has options", "Write WITH ('provider' = '...').")
        if bool(inputs) != bool(outputs):
            self.refuse("a model has both INPUT and OUTPUT, or neither")
        query = self._optional_query()
        return CreateModel(
            model, inputs, outputs, comment, options, query, prefix.temporary, not_exists, start=start, end=self.end
        )

    def _create_connection(self, start: int, prefix: "_Prefix") -> Statement:
        not_exists = self.if_not_exists()
        connection = self.path()
        comment = self.comment()
        self.expect("WITH")
        options = self.options()
        return CreateConnection(
            connection, comment, options, prefix.temporary, prefix.system, not_exists, start=start, end=self.end
        )

    # --- DROP --------------------------------------------------------------------------------------------------------

    def drop(self) -> Statement:
        """``DROP``, of any object."""
        start = self.start
        self.expect("DROP")
        temporary = self.accept("TEMPORARY")
        system = self.accept("SYSTEM")
        kind = self.object_kind()
        exists = self.if_exists()
        path = self.path()
        cascade = kind is ObjectKind.DATABASE and (self.accept("CASCADE") or (self.accept("RESTRICT") and False))
        return Drop(kind, path, exists, temporary, system, cascade, start=start, end=self.end)

    def object_kind(self) -> ObjectKind:
        """``TABLE``, ``MATERIALIZED TABLE``, ``VIEW``, ..."""
        if self.accept("MATERIALIZED"):
            self.expect("TABLE")
            return ObjectKind.MATERIALIZED_TABLE
        return self.choose(OBJECTS)


class _Prefix:
    """The keywords between ``CREATE`` and the kind of object."""

    __slots__ = ("replace", "system", "temporary")

    def __init__(self, replace: bool, temporary: bool, system: bool) -> None:
        self.replace = replace
        self.temporary = temporary
        self.system = system


_CREATED: Final[dict[str, Callable[[DefinitionParser, int, _Prefix], Statement]]] = {
    "TABLE": DefinitionParser._create_table,
    "VIEW": DefinitionParser._create_view,
    "CATALOG": DefinitionParser._create_catalog,
    "DATABASE": DefinitionParser._create_database,
    "FUNCTION": DefinitionParser._create_function,
    "MODEL": DefinitionParser._create_model,
    "CONNECTION": DefinitionParser._create_connection,
}
"""Parsers of the rest of a CREATE statement, by its second keyword."""
