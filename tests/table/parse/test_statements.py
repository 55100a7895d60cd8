"""Statements have the parts that they were written with."""

from __future__ import annotations

from typing import TypeVar

import pytest

from headrace.table.parse import SqlParseError, parse_script, parse_statement
from headrace.table.parse.tree import definitions as de
from headrace.table.parse.tree import queries as qu
from headrace.table.parse.tree import statements as st

T = TypeVar("T", bound=de.Statement)
Q = TypeVar("Q")


def parsed(text: str, kind: type[T]) -> T:
    found = parse_statement(text)
    assert isinstance(found, kind)
    assert (found.start, found.end) == (0, len(text))
    return found


def query(text: str, kind: type[Q]) -> Q:
    found = parsed(text, st.QueryStatement).query
    assert isinstance(found, kind)
    return found


def test_create_table() -> None:
    table = parsed(
        "CREATE TEMPORARY TABLE IF NOT EXISTS c.d.t ("
        "  id INT NOT NULL COMMENT 'the id', t TIMESTAMP_LTZ(3) METADATA FROM 'ts' VIRTUAL, twice AS id * 2,"
        "  WATERMARK FOR t AS t - INTERVAL '5' SECOND, CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED"
        ") COMMENT 'a table' DISTRIBUTED BY HASH(id) INTO 4 BUCKETS PARTITIONED BY (id)"
        " WITH ('connector' = 'log', 'it''s' = '1') LIKE u (INCLUDING ALL EXCLUDING WATERMARKS)",
        de.CreateTable,
    )
    assert table.table.texts == ("c", "d", "t")
    physical, metadata, computed, watermark, key = table.elements
    assert isinstance(physical, de.PhysicalColumn)
    assert (physical.name.texts, physical.type.nullable, physical.comment) == (("id",), False, "the id")
    assert isinstance(metadata, de.MetadataColumn)
    assert (metadata.key, metadata.is_virtual) == ("ts", True)
    assert isinstance(computed, de.ComputedColumn)
    assert isinstance(watermark, de.Watermark)
    assert isinstance(key, de.Constraint)
    assert (str(key.name), key.is_primary_key, key.enforced) == ("pk", True, False)
    assert table.distribution is not None
    assert (table.distribution.kind, table.distribution.buckets) == (de.DistributionKind.HASH, 4)
    assert {option.key: option.value for option in table.options} == {"connector": "log", "it's": "1"}
    assert table.like is not None
    assert [option.feature for option in table.like.options] == [de.LikeFeature.ALL, de.LikeFeature.WATERMARKS]
    assert (table.is_temporary, table.if_not_exists, table.or_replace) == (True, True, False)


def test_tables_of_queries() -> None:
    assert parsed("CREATE TABLE t (b, a) AS SELECT 1 AS a, 2 AS b", de.CreateTable).query is not None
    replaced = parsed("REPLACE TABLE t WITH ('a'='b') AS SELECT 1", de.CreateTable)
    assert (replaced.or_replace, replaced.must_exist) == (True, True)
    materialized = parsed(
        "CREATE OR ALTER MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' MINUTE REFRESH_MODE = FULL AS SELECT 1",
        de.CreateMaterializedTable,
    )
    assert (materialized.refresh_mode, materialized.or_alter) == (de.RefreshMode.FULL, True)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("ALTER TABLE t RENAME TO u", de.RenameTo),
        ("ALTER TABLE t RENAME a TO b", de.RenameColumn),
        ("ALTER TABLE IF EXISTS t ADD (a INT FIRST, b AS a AFTER a, WATERMARK FOR c AS c)", de.ChangeSchema),
        ("ALTER TABLE t ADD PRIMARY KEY (a) NOT ENFORCED", de.ChangeSchema),
        ("ALTER TABLE t MODIFY DISTRIBUTION INTO 3 BUCKETS", de.ChangeSchema),
        ("ALTER TABLE t DROP (a, b)", de.DropColumns),
        ("ALTER TABLE t DROP WATERMARK", de.DropPart),
        ("ALTER TABLE t DROP CONSTRAINT pk", de.DropConstraint),
        ("ALTER TABLE t ADD IF NOT EXISTS PARTITION (d = 'x') WITH ('a' = 'b') PARTITION (d = 'y')", de.AddPartitions),
        ("ALTER TABLE t DROP PARTITION (d = 'x'), PARTITION (d = -1)", de.DropPartitions),
        ("ALTER TABLE t SET ('a' = 'b')", de.SetOptions),
        ("ALTER TABLE t RESET ('a')", de.ResetOptions),
        ("ALTER VIEW v AS SELECT 1", de.SetQuery),
        ("ALTER CATALOG c COMMENT 'x'", de.SetComment),
        ("ALTER DATABASE d SET ('a' = 'b')", de.SetOptions),
        ("ALTER TEMPORARY SYSTEM FUNCTION f AS 'm.f' LANGUAGE PYTHON", de.SetFunction),
        ("ALTER MATERIALIZED TABLE m SUSPEND", de.Suspend),
        ("ALTER MATERIALIZED TABLE m RESUME WITH ('a' = 'b')", de.Resume),
        ("ALTER MATERIALIZED TABLE m REFRESH PARTITION (d = 'x')", de.Refresh),
        ("ALTER MATERIALIZED TABLE m SET FRESHNESS = INTERVAL '1' DAY", de.SetFreshness),
        ("ALTER MATERIALIZED TABLE m SET REFRESH_MODE = CONTINUOUS", de.SetRefreshMode),
    ],
)
def test_alter(text: str, action: type[de.AlterAction]) -> None:
    assert type(parsed(text, de.Alter).action) is action


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CREATE OR REPLACE VIEW v (a) COMMENT 'c' AS SELECT 1", de.CreateView),
        ("CREATE CATALOG IF NOT EXISTS c COMMENT 'c' WITH ('type' = 'generic_in_memory')", de.CreateCatalog),
        ("CREATE DATABASE d COMMENT 'x'", de.CreateDatabase),
        ("CREATE TEMPORARY SYSTEM FUNCTION f AS 'm.f' LANGUAGE JAVA USING JAR '/a', ARTIFACT '/b'", de.CreateFunction),
        ("CREATE MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'x')", de.CreateModel),
        ("DROP TEMPORARY VIEW IF EXISTS v", de.Drop),
        ("DROP DATABASE d CASCADE", de.Drop),
        ("DROP MATERIALIZED TABLE m", de.Drop),
        ("INSERT OVERWRITE t PARTITION (d = 'x') (a, b) SELECT 1, 2 ON CONFLICT DO NOTHING", st.Insert),
        ("INSERT INTO t /*+ OPTIONS('a' = 'b') */ VALUES (1, DEFAULT)", st.Insert),
        ("INSERT INTO t (SELECT 1)", st.Insert),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; INSERT INTO u SELECT 2; END", st.Execute),
        ("BEGIN STATEMENT SET", st.BeginStatementSet),
        ("END", st.EndStatementSet),
        ("DELETE FROM t AS x WHERE a = 1", st.Delete),
        ("UPDATE t SET a = 1, b = 2 WHERE c", st.Update),
        (
            "MERGE INTO t USING u ON c WHEN MATCHED THEN UPDATE SET b = 1 WHEN NOT MATCHED THEN INSERT VALUES (1)",
            st.MergeInto,
        ),
        ("TRUNCATE TABLE t", st.Truncate),
        ("EXPLAIN ESTIMATED_COST, PLAN_ADVICE INSERT INTO t SELECT 1", st.Explain),
        ("EXPLAIN PLAN FOR SELECT 1", st.Explain),
        ("EXECUTE PLAN '/a'", st.ExecutePlan),
        ("COMPILE PLAN '/a' IF NOT EXISTS FOR INSERT INTO t SELECT 1", st.CompilePlan),
        ("COMPILE AND EXECUTE PLAN '/a' FOR STATEMENT SET BEGIN INSERT INTO t SELECT 1; END", st.CompilePlan),
        ("SHOW TABLES IN c.d NOT LIKE '%a'", st.Show),
        ("SHOW CATALOGS ILIKE 'a%'", st.Show),
        ("SHOW PARTITIONS t PARTITION (d = 'x')", st.Show),
        ("SHOW CURRENT CATALOG", st.Show),
        ("SHOW CREATE MATERIALIZED TABLE m", st.ShowCreate),
        ("DESCRIBE EXTENDED t", st.Describe),
        ("DESC CATALOG EXTENDED c", st.Describe),
        ("DESCRIBE JOB 'x'", st.DescribeJob),
        ("STOP JOB 'x' WITH SAVEPOINT WITH DRAIN", st.StopJob),
        ("USE CATALOG c", st.UseCatalog),
        ("USE c.d", st.UseDatabase),
        ("USE MODULES a, b", st.UseModules),
        ("LOAD MODULE m WITH ('a' = 'b')", st.LoadModule),
        ("UNLOAD MODULE m", st.UnloadModule),
        ("ADD JAR '/a.jar'", st.Jar),
        ("ANALYZE TABLE t PARTITION (d) COMPUTE STATISTICS FOR COLUMNS a, b", st.AnalyzeTable),
        ("CALL c.d.p(1, name => 'x')", st.CallProcedure),
    ],
)
def test_each_statement_is_of_its_kind(text: str, kind: type[de.Statement]) -> None:
    parsed(text, kind)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("SET 'a.b' = 'c d'", "a.b", "c d"),
        ("SET a.b = c", "a.b", "c"),
        ("SET a.b='it''s'", "a.b", "it's"),
        ("SET dir = s3://bucket/a--b", "dir", "s3://bucket/a--b"),
    ],
)
def test_set(text: str, key: str, value: str) -> None:
    option = parsed(text, st.SetOption).option
    assert option is not None
    assert (option.key, option.value) == (key, value)


def test_a_script_has_statements() -> None:
    script = parse_script("-- first\nSET dir = s3://a;\nRESET dir;;\nSELECT ';' FROM t; /* last */ SHOW TABLES")
    assert [type(statement) for statement in script] == [st.SetOption, st.ResetOption, st.QueryStatement, st.Show]
    assert parse_script(" ; -- nothing\n") == ()


# --- queries ---------------------------------------------------------------------------------------------------------


def test_select_has_its_clauses() -> None:
    select = query(
        "SELECT /*+ BROADCAST(t), STATE_TTL('t' = '1d') */ DISTINCT a AS x, t.* FROM t WHERE a > 1"
        " GROUP BY a, GROUPING SETS ((a, b), ()), CUBE (c) HAVING COUNT(*) > 1 WINDOW w AS (PARTITION BY a) QUALIFY b",
        qu.SelectQuery,
    )
    assert [(str(hint.name), hint.options, hint.items) for hint in select.hints] == [
        ("BROADCAST", (), ("t",)),
        ("STATE_TTL", (("t", "1d"),), ()),
    ]
    assert [str(item.alias) for item in select.items] == ["x", "None"]
    assert select.group_by is not None
    assert len(select.group_by.elements) == 3
    assert None not in (select.where, select.having, select.qualify, select.quantifier)
    assert len(select.windows) == 1


@pytest.mark.parametrize(
    ("text", "has_limit", "has_offset"),
    [
        ("SELECT 1 LIMIT 2", True, False),
        ("SELECT 1 LIMIT 2 OFFSET 3", True, True),
        ("SELECT 1 OFFSET 3 ROWS FETCH NEXT 2 ROWS ONLY", True, True),
        ("SELECT 1 FETCH FIRST 2 ROW ONLY", True, False),
        ("SELECT 1 LIMIT ALL", False, False),
        ("SELECT 1 OFFSET 1", False, True),
    ],
)
def test_limits(text: str, has_limit: bool, has_offset: bool) -> None:
    ordered = query(text, qu.OrderedQuery)
    assert (ordered.limit is not None, ordered.offset is not None) == (has_limit, has_offset)


def test_set_operations_bind_from_the_left_and_intersect_most() -> None:
    union = query("SELECT 1 UNION ALL SELECT 2 INTERSECT SELECT 3 EXCEPT SELECT 4", qu.SqlSetOperation)
    assert union.operator is qu.SqlSetOperator.EXCEPT
    assert isinstance(union.left, qu.SqlSetOperation)
    assert (union.left.operator, union.left.is_all) == (qu.SqlSetOperator.UNION, True)
    assert isinstance(union.left.right, qu.SqlSetOperation)
    with_query = query("WITH RECURSIVE a (x) AS (SELECT 1), b AS (TABLE a) SELECT x FROM b", qu.WithQuery)
    assert (with_query.is_recursive, len(with_query.items)) == (True, 2)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("t", qu.TableReference),
        ("c.d.t /*+ OPTIONS('a' = 'b') */ AS x (a, b)", qu.AliasedRelation),
        ("(SELECT 1)", qu.DerivedTable),
        ("((SELECT 1) UNION SELECT 2)", qu.DerivedTable),
        ("(((SELECT 1)))", qu.DerivedTable),
        ("LATERAL (SELECT 1)", qu.DerivedTable),
        ("(t JOIN u ON a = b)", qu.JoinRelation),
        ("((SELECT 1) AS x JOIN u ON a = b)", qu.JoinRelation),
        ("t, u", qu.JoinRelation),
        ("t NATURAL LEFT JOIN u", qu.JoinRelation),
        ("t JOIN u USING (a, b)", qu.JoinRelation),
        ("t CROSS JOIN UNNEST(a) WITH ORDINALITY AS x (b, n)", qu.JoinRelation),
        ("t LEFT JOIN LATERAL TABLE(f(a)) AS x (b) ON TRUE", qu.JoinRelation),
        ("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))", qu.TableFunctionCall),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", qu.TableFunctionCall),
        ("t FOR SYSTEM_TIME AS OF a.ts", qu.SnapshotRelation),
        ("t TABLESAMPLE BERNOULLI (10) REPEATABLE (3)", qu.TableSample),
        ("t PIVOT (SUM(a) AS s FOR b IN ('x' AS y, ('z')))", qu.Pivot),
        ("t UNPIVOT INCLUDE NULLS (a FOR b IN (c AS 'x', d))", qu.Unpivot),
    ],
)
def test_relations(text: str, kind: type[qu.SqlRelation]) -> None:
    assert type(query(f"SELECT * FROM {text}", qu.SelectQuery).relation) is kind


def test_match_recognize() -> None:
    select = query(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY a ORDER BY b MEASURES FINAL LAST(A.x, 1) AS m ONE ROW PER MATCH"
        " AFTER MATCH SKIP TO LAST A PATTERN (^ A+? (B | C){2,3} {- D -} PERMUTE(E, F) $) WITHIN INTERVAL '1' HOUR"
        " SUBSET U = (A, B) DEFINE A AS A.x > PREV(A.x)) AS m",
        qu.SelectQuery,
    )
    assert isinstance(select.relation, qu.AliasedRelation)
    match = select.relation.relation
    assert isinstance(match, qu.MatchRecognize)
    assert (match.all_rows, match.after_match, str(match.after_variable)) == (False, qu.AfterMatch.LAST, "A")
    assert isinstance(match.pattern, qu.PatternSequence)
    first, group, excluded, permuted = match.pattern.parts
    assert isinstance(first, qu.PatternRepetition)
    assert (first.least, first.most, first.is_reluctant) == (1, None, True)
    assert isinstance(group, qu.PatternRepetition)
    assert (group.least, group.most, type(group.part)) == (2, 3, qu.PatternAlternatives)
    assert isinstance(excluded, qu.RowPatternExclusion)
    assert isinstance(permuted, qu.PatternPermutation)
    assert (match.at_begin, match.at_end, len(match.subsets), len(match.definitions)) == (True, True, 1, 1)


def test_long_texts_take_no_stack() -> None:
    rows = query("VALUES " + ", ".join(["(1, 'a')"] * 1000), qu.ValuesQuery)
    assert len(rows.rows) == 1000
    union = query(" UNION ALL ".join(["SELECT 1"] * 1000), qu.SqlSetOperation)
    assert union.is_all


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t LATERAL f(a)",
        "SELECT * FROM t CROSS APPLY TABLE(f(a))",
        "SELECT a WHERE a",
        "SELECT a FROM t ORDER BY",
        "SELECT 1 AS 'a'",
        "SELECT a FROM (SELECT b FROM t) FOR SYSTEM_TIME AS OF c",
        "INSERT INTO t",
        "CREATE TABLE t (a INT) AS",
        "CREATE SYSTEM TABLE t (a INT)",
        "ALTER VIEW v SET ('a' = 'b')",
        "DROP t",
        "SHOW TABLES LIKE a",
        "USE MODULES",
        "SELECT JSON_VALUE(a, '$' NULL ON EMPTY NULL ON EMPTY)",
        "SELECT a FROM t OFFSET 1 LIMIT 2",
        "SELECT a FROM t MINUS SELECT 1",
        "SELECT * FROM (t JOIN u ON a) AS x",
        "SELECT f(a ORDER BY b)",
        "CREATE TABLE t (a, b INT) AS SELECT 1",
        "SELECT CAST(a AS INT NOT NULL)",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(SqlParseError):
        parse_script(text)
