"""Statements, by their leading keywords."""

import re
from collections.abc import Callable
from typing import Final

from headrace.table.parse.alterations import AlterationParser
from headrace.table.parse.definitions import OBJECTS
from headrace.table.parse.diagnosis import A_STATEMENT
from headrace.table.parse.forms import QUERY_WORDS
from headrace.table.parse.tokens import END, STRING
from headrace.table.parse.tree.definitions import CreateTable, ObjectKind, Option, Partition, Statement
from headrace.table.parse.tree.expressions import SqlExpression
from headrace.table.parse.tree.node import Name, Path
from headrace.table.parse.tree.statements import (
    AnalyzeTable,
    BeginStatementSet,
    CallProcedure,
    ClientCommand,
    ColumnAssignment,
    CompilePlan,
    ConflictAction,
    Delete,
    Describe,
    DescribeJob,
    EndStatementSet,
    Execute,
    ExecutePlan,
    Explain,
    ExplainDetail,
    Insert,
    Jar,
    LoadModule,
    MergeInto,
    QueryStatement,
    ResetOption,
    SetOption,
    Show,
    ShowCreate,
    ShowKind,
    SqlStatementSet,
    StatisticsScope,
    StopJob,
    Truncate,
    UnloadModule,
    Update,
    UseCatalog,
    UseDatabase,
    UseModules,
)

_DETAILS: Final = {each.value: each for each in ExplainDetail}
_CONFLICTS: Final = {action.value.removeprefix("DO "): action for action in ConflictAction}
_SHOWN: Final = {kind.value: kind for kind in ShowKind if " " not in kind.value}
_IN_CATALOG: Final = (ShowKind.DATABASES,)
_IN_DATABASE: Final = (
    ShowKind.TABLES,
    ShowKind.MATERIALIZED_TABLES,
    ShowKind.VIEWS,
    ShowKind.FUNCTIONS,
    ShowKind.USER_FUNCTIONS,
    ShowKind.PROCEDURES,
    ShowKind.MODELS,
    ShowKind.CONNECTIONS,
)
_LIKE_ONLY: Final = (ShowKind.CATALOGS,)
_MAY_IGNORE_CASE: Final = (
    ShowKind.CATALOGS,
    ShowKind.DATABASES,
    ShowKind.FUNCTIONS,
    ShowKind.USER_FUNCTIONS,
    ShowKind.PROCEDURES,
)
_SHOWN_CREATED: Final = ("TABLE", "VIEW", "MATERIALIZED", "CATALOG", "MODEL", "CONNECTION")
_ASSIGNED: Final = re.compile(r"\s+([^\s'=;]+)\s*=\s*(?:'((?:[^']|'')*)'|([^\s;]+))")
_CLIENT_COMMANDS: Final = frozenset(("QUIT", "EXIT", "CLEAR", "HELP"))
_RESET: Final = re.compile(r"\s+([^\s';]+)")


class StatementParser(AlterationParser):
    """Parses statements, by the table :data:`STATEMENTS` of their leading keywords."""

    __slots__ = ()

    def statement(self) -> Statement:
        """A statement, without the semicolon after it."""
        parse = STATEMENTS.get(self.kind)
        if parse is not None:
            return parse(self)
        if self.token.text.upper() not in _CLIENT_COMMANDS:
            self.fail(*_NAMED_FIRST)
        token = self.advance()
        return ClientCommand(token.text.upper(), start=token.start, end=token.end)

    def statement_of_query(self) -> Statement:
        start = self.start
        return QueryStatement(self.query(), start=start, end=self.end)

    # --- changes of rows ---------------------------------------------------------------------------------------------

    def insert(self) -> Insert:
        """``INSERT INTO`` or ``INSERT OVERWRITE``."""
        start = self.start
        upsert = self.kind == "UPSERT"
        if not self.at_any(("INSERT", "UPSERT")):
            self.fail("INSERT")
        if upsert:
            self.refuse("UPSERT INTO is not supported", "Write INSERT INTO: rows of the same primary key are replaced.")
        self.advance()
        is_overwrite = False
        if not self.accept("INTO"):
            if not self.at("OVERWRITE"):
                self.fail("INTO", "OVERWRITE")
            self.advance()
            is_overwrite = True
        table = self.path()
        hints = self.hints()
        partition: Partition = self.in_parentheses(self._full_partition_value) if self.accept("PARTITION") else ()
        columns = self.in_parentheses(self.path) if self._at_columns() else ()
        query = self.query()
        conflict = self._on_conflict() if self.at("ON") else None
        return Insert(table, query, columns, partition, hints, is_overwrite, conflict, start=start, end=self.end)

    def _at_columns(self) -> bool:
        """Return whether a parenthesis holds columns, and not a query."""
        number = 0
        while self.ahead(number) == "(":
            number += 1
        return number == 1 and self.ahead(1) not in QUERY_WORDS

    def _on_conflict(self) -> ConflictAction:
        self.expect("ON", "CONFLICT", "DO")
        return self.choose(_CONFLICTS)

    def statement_set(self) -> SqlStatementSet:
        """``STATEMENT SET BEGIN insert; ... END``."""
        start = self.start
        self.expect("STATEMENT", "SET", "BEGIN")
        inserts: list[Insert] = []
        while not inserts or not self.at("END"):
            inserts.append(self.insert())
            self.expect(";")
        self.expect("END")
        return SqlStatementSet(tuple(inserts), start=start, end=self.end)

    def begin(self) -> Statement:
        start = self.start
        self.expect("BEGIN", "STATEMENT", "SET")
        return BeginStatementSet(start=start, end=self.end)

    def end_set(self) -> Statement:
        token = self.advance()
        return EndStatementSet(start=token.start, end=token.end)

    def delete(self) -> Statement:
        start = self.start
        self.expect("DELETE", "FROM")
        table = self.path()
        alias = self._optional_alias()
        where = self.expression() if self.accept("WHERE") else None
        return Delete(table, alias, where, start=start, end=self.end)

    def update(self) -> Statement:
        start = self.start
        self.expect("UPDATE")
        table = self.path()
        alias = self._optional_alias()
        self.expect("SET")
        assignments = self.some(self._assignment)
        where = self.expression() if self.accept("WHERE") else None
        return Update(table, assignments, alias, where, start=start, end=self.end)

    def _assignment(self) -> ColumnAssignment:
        column = self._simple_path()
        return self._assigned(column)

    def _assignment_of_merge(self) -> ColumnAssignment:
        return self._assigned(self.path())

    def _assigned(self, column: Path) -> ColumnAssignment:
        self.expect("=")
        return ColumnAssignment(column, self.expression(), start=column.start, end=self.end)

    def merge(self) -> Statement:
        start = self.start
        self.expect("MERGE", "INTO")
        table = self.path()
        alias = self._optional_alias()
        self.expect("USING")
        source = self._table()
        self.expect("ON")
        condition = self.expression()
        if not self.at("WHEN"):
            self.fail("WHEN")
        updates: tuple[ColumnAssignment, ...] = ()
        columns: tuple[Name, ...] = ()
        values: tuple[SqlExpression, ...] | None = None
        if self.at_all("WHEN", "MATCHED"):
            self.expect("WHEN", "MATCHED", "THEN", "UPDATE", "SET")
            updates = self.some(self._assignment_of_merge)
        if self.at("WHEN"):
            self.expect("WHEN", "NOT", "MATCHED", "THEN", "INSERT")
            columns = self.names_in_parentheses() if self._at_columns() else ()
            values = self._merge_values()
        return MergeInto(table, alias, source, condition, updates, columns, values, start=start, end=self.end)

    def _merge_values(self) -> tuple[SqlExpression, ...]:
        has_parentheses = self.accept("(")
        self.expect("VALUES")
        values = self.row()
        if has_parentheses:
            self.expect(")")
        return values

    def truncate(self) -> Statement:
        start = self.start
        self.expect("TRUNCATE", "TABLE")
        return Truncate(self.path(), start=start, end=self.end)

    # --- plans -------------------------------------------------------------------------------------------------------

    def explain(self) -> Statement:
        start = self.start
        self.advance()
        details: tuple[ExplainDetail, ...] = ()
        if not self.accept_all("PLAN", "FOR") and self.at_any(_DETAILS):
            first = self.token
            details = self.some(self._detail)
            if len(set(details)) < len(details):
                self.refuse("a detail of EXPLAIN is named twice", token=first)
        if not self.at_any(_EXPLAINED):
            self.fail(A_STATEMENT, *_EXPLAINED, *_DETAILS)
        token = self.token
        statement = _EXPLAINED[self.kind](self)
        if token.kind == "CREATE" and not (isinstance(statement, CreateTable) and statement.query is not None):
            self.refuse("only what a query fills is explained", "Write CREATE TABLE ... AS SELECT ...", token)
        return Explain(statement, details, start=start, end=self.end)

    def _detail(self) -> ExplainDetail:
        return self.choose(_DETAILS)

    def execute(self) -> Statement:
        start = self.start
        self.advance()
        if self.at("PLAN") and self.ahead() == STRING:
            self.advance()
            return ExecutePlan(self.text(), start=start, end=self.end)
        if not self.at_any(_EXECUTED):
            self.fail(A_STATEMENT, *_EXECUTED, "PLAN")
        return Execute(_EXECUTED[self.kind](self), start=start, end=self.end)

    def compile_plan(self) -> Statement:
        start = self.start
        self.advance()
        and_execute = self.accept("AND")
        if and_execute:
            self.expect("EXECUTE")
        self.expect("PLAN")
        file = self.text()
        not_exists = False if and_execute else self.if_not_exists()
        self.expect("FOR")
        if not self.at_any(("STATEMENT", "INSERT", "UPSERT")):
            self.fail("STATEMENT", "INSERT")
        statement: Statement = self.statement_set() if self.at("STATEMENT") else self.insert()
        return CompilePlan(file, statement, not_exists, and_execute, start=start, end=self.end)

    # --- SHOW and DESCRIBE -------------------------------------------------------------------------------------------

    def show(self) -> Statement:
        start = self.start
        self.advance()
        if self.accept("CREATE"):
            if not self.at_any(_SHOWN_CREATED):
                self.fail(*_SHOWN_CREATED)
            kind = self.object_kind()
            return ShowCreate(kind, self.path(), start=start, end=self.end)
        return self._show(self._show_kind(), start)

    def _show_kind(self) -> ShowKind:
        if self.accept("CURRENT"):
            return self.choose({"CATALOG": ShowKind.CURRENT_CATALOG, "DATABASE": ShowKind.CURRENT_DATABASE})
        if self.accept("USER"):
            self.expect("FUNCTIONS")
            return ShowKind.USER_FUNCTIONS
        if self.accept("FULL"):
            self.expect("MODULES")
            return ShowKind.FULL_MODULES
        if self.accept("MATERIALIZED"):
            self.expect("TABLES")
            return ShowKind.MATERIALIZED_TABLES
        return self.choose(_SHOWN)

    def _show(self, kind: ShowKind, start: int) -> Statement:
        path: Path | None = None
        if kind is ShowKind.PARTITIONS:
            path = self.path()
            partition = self.in_parentheses(self._full_partition_value) if self.accept("PARTITION") else ()
            return Show(kind, path, partition=partition, start=start, end=self.end)
        if kind is ShowKind.COLUMNS:
            if not self.at_any(("FROM", "IN")):
                self.fail("FROM", "IN")
            self.advance()
            path = self.path()
        elif kind in (*_IN_CATALOG, *_IN_DATABASE) and self.at_any(("FROM", "IN")):
            self.advance()
            path = self.path()
        if kind in (ShowKind.COLUMNS, *_LIKE_ONLY, *_IN_CATALOG, *_IN_DATABASE):
            return self._show_like(kind, path, start)
        return Show(kind, start=start, end=self.end)

    def _show_like(self, kind: ShowKind, path: Path | None, start: int) -> Statement:
        negated = self.accept("NOT")
        if not (negated or self.at("LIKE") or self.at("ILIKE")):
            return Show(kind, path, start=start, end=self.end)
        ignores_case = self.choose({"LIKE": False, "ILIKE": True} if kind in _MAY_IGNORE_CASE else {"LIKE": False})
        pattern = self.text()
        return Show(kind, path, pattern, negated, ignores_case, start=start, end=self.end)

    def describe(self) -> Statement:
        start = self.start
        self.advance()
        if self.accept("JOB"):
            return DescribeJob(self.text(), start=start, end=self.end)
        kind = ObjectKind.TABLE
        if self.at_any(_DESCRIBED):
            kind = _DESCRIBED[self.advance().kind]
        is_extended = self.accept("EXTENDED")
        return Describe(kind, self.path(), is_extended, start=start, end=self.end)

    # --- the session -------------------------------------------------------------------------------------------------

    def use(self) -> Statement:
        start = self.start
        self.advance()
        if self.accept("CATALOG"):
            return UseCatalog(self.name(), start=start, end=self.end)
        if self.accept("MODULES"):
            return UseModules(self.some(self.name), start=start, end=self.end)
        return UseDatabase(self.path(), start=start, end=self.end)

    def load(self) -> Statement:
        start = self.start
        self.expect("LOAD", "MODULE")
        module = self.name()
        return LoadModule(module, self.with_options(), start=start, end=self.end)

    def unload(self) -> Statement:
        start = self.start
        self.expect("UNLOAD", "MODULE")
        return UnloadModule(self.name(), start=start, end=self.end)

    def set_option(self) -> Statement:
        """``SET 'key' = 'value'``, and ``SET key = value`` up to the next space, where ``//`` is not a comment."""
        token = self.advance()
        if self.at_any((END, ";")):
            return SetOption(start=token.start, end=token.end)
        if not self.at(STRING) and (found := _ASSIGNED.match(self.source.text, token.end)):
            quoted = found[2]
            value = found[3] if quoted is None else quoted.replace("''", "'")
            self._restart(found.end())
            option = Option(found[1], value, start=found.start(1), end=found.end())
            return SetOption(option, start=token.start, end=found.end())
        start = self.start
        key = self.text()
        self.expect("=")
        option = Option(key, self.text(), start=start, end=self.end)
        return SetOption(option, start=token.start, end=self.end)

    def reset_option(self) -> Statement:
        token = self.advance()
        if self.at_any((END, ";")):
            return ResetOption(start=token.start, end=token.end)
        if not self.at(STRING) and (found := _RESET.match(self.source.text, token.end)):
            self._restart(found.end())
            return ResetOption(found[1], start=token.start, end=found.end())
        return ResetOption(self.text(), start=token.start, end=self.end)

    def jar(self) -> Statement:
        start = self.start
        is_add = self.advance().kind == "ADD"
        self.expect("JAR")
        return Jar(self.text(), is_add, start=start, end=self.end)

    def stop_job(self) -> Statement:
        start = self.start
        self.expect("STOP", "JOB")
        job = self.text()
        savepoint = self.accept_all("WITH", "SAVEPOINT")
        if not savepoint and self.at_all("WITH", "DRAIN"):
            self.refuse("WITH DRAIN stands behind WITH SAVEPOINT", "Write WITH SAVEPOINT WITH DRAIN.")
        drain = self.accept_all("WITH", "DRAIN")
        return StopJob(job, savepoint, drain, start=start, end=self.end)

    def analyze(self) -> Statement:
        start = self.start
        self.expect("ANALYZE", "TABLE")
        table = self.path()
        partition = self.partition() if self.accept("PARTITION") else ()
        self.expect("COMPUTE", "STATISTICS")
        scope = StatisticsScope.ROW_COUNT
        columns: tuple[Name, ...] = ()
        if self.accept("FOR"):
            if self.accept("ALL"):
                self.expect("COLUMNS")
                scope = StatisticsScope.ALL_COLUMNS
            else:
                self.expect("COLUMNS")
                scope, columns = StatisticsScope.COLUMNS, self.some(self.name)
        return AnalyzeTable(table, partition, scope, columns, start=start, end=self.end)

    def call(self) -> Statement:
        start = self.start
        self.advance()
        return CallProcedure(self.procedure_call(), start=start, end=self.end)


_Parse = Callable[[StatementParser], Statement]

_DESCRIBED: Final = {word: kind for word, kind in OBJECTS.items() if kind is not ObjectKind.VIEW}

_EXECUTED: Final[dict[str, _Parse]] = {
    **dict.fromkeys((*sorted(QUERY_WORDS), "("), StatementParser.statement_of_query),
    **dict.fromkeys(("INSERT", "UPSERT"), StatementParser.insert),
    "STATEMENT": StatementParser.statement_set,
}

_EXPLAINED: Final[dict[str, _Parse]] = {
    **_EXECUTED,
    "CREATE": StatementParser.create,
    "REPLACE": StatementParser.replace_table,
    "EXECUTE": StatementParser.execute,
}

STATEMENTS: Final[dict[str, _Parse]] = {
    **dict.fromkeys((*sorted(QUERY_WORDS), "("), StatementParser.statement_of_query),
    **dict.fromkeys(("INSERT", "UPSERT"), StatementParser.insert),
    "BEGIN": StatementParser.begin,
    "END": StatementParser.end_set,
    "DELETE": StatementParser.delete,
    "UPDATE": StatementParser.update,
    "MERGE": StatementParser.merge,
    "TRUNCATE": StatementParser.truncate,
    "CREATE": StatementParser.create,
    "REPLACE": StatementParser.replace_table,
    "ALTER": StatementParser.alter,
    "DROP": StatementParser.drop,
    "EXPLAIN": StatementParser.explain,
    "EXECUTE": StatementParser.execute,
    "COMPILE": StatementParser.compile_plan,
    "SHOW": StatementParser.show,
    **dict.fromkeys(("DESCRIBE", "DESC"), StatementParser.describe),
    "USE": StatementParser.use,
    "LOAD": StatementParser.load,
    "UNLOAD": StatementParser.unload,
    "SET": StatementParser.set_option,
    "RESET": StatementParser.reset_option,
    **dict.fromkeys(("ADD", "REMOVE"), StatementParser.jar),
    "STOP": StatementParser.stop_job,
    "ANALYZE": StatementParser.analyze,
    "CALL": StatementParser.call,
}
"""Parsers of statements by the kind of the first token."""

_NAMED_FIRST: Final = (A_STATEMENT, *(word for word in STATEMENTS if word.isalpha()))
