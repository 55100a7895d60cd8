"""User-defined functions: how they are registered and found, what they are called with, and how they fail."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.common.errors import HeadraceError, InvalidProgramError, UnsupportedOperationError
from headrace.table import DataTypes, EnvironmentSettings, Row, TableEnvironment
from headrace.table.bind import SqlValidationError
from headrace.table.bind.user_functions import logical_type
from headrace.table.udf import AggregateFunction, FunctionContext, ScalarFunction, TableFunction, udaf, udf, udtaf, udtf
from tests.table.connectors.session import rows, session

SALES = """
CREATE TEMPORARY VIEW sales AS SELECT * FROM (VALUES
    ('tea', 1, TIMESTAMP '2024-01-01 00:00:01.000'), ('rye', 2, TIMESTAMP '2024-01-01 00:00:02.000'),
    ('tea', 3, TIMESTAMP '2024-01-01 00:00:03.000'), ('tea', CAST(NULL AS INT), TIMESTAMP '2024-01-01 00:01:04.000')
) AS v(item, n, ts)
"""


def plus(a: int, b: int = 10) -> int | None:
    return None if a is None else a + b


@udf(result_type="BIGINT", func_type="arrow")
def doubled(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers, 2)


@udtf(result_types="ROW<letter STRING, place INT>")
def letters(text: str) -> Iterator[tuple[str, int]]:
    for place, letter in enumerate(text):
        yield letter, place


class Mean(AggregateFunction):
    """The mean, which can take rows back and does not merge."""

    def create_accumulator(self) -> Any:
        return Row(0, 0)

    def accumulate(self, accumulator: Any, value: int | None) -> None:
        if value is not None:
            accumulator[0] += value
            accumulator[1] += 1

    def retract(self, accumulator: Any, value: int | None) -> None:
        if value is not None:
            accumulator[0] -= value
            accumulator[1] -= 1

    def get_value(self, accumulator: Any) -> float | None:
        return accumulator[0] / accumulator[1] if accumulator[1] else None


class MergingMean(Mean):
    """The same, which merges."""

    def merge(self, accumulator: Any, accumulators: Any) -> None:
        for each in accumulators:
            accumulator[0] += each[0]
            accumulator[1] += each[1]


mean = udaf(Mean(), result_type="DOUBLE", accumulator_type="ROW<total BIGINT, number BIGINT>")


def with_functions(*statements: str, is_streaming: bool = True, **settings: str) -> TableEnvironment:
    tables = session(SALES, is_streaming=is_streaming, **settings)
    for name, function in {"plus": plus, "doubled": doubled, "letters": letters, "mean": mean}.items():
        tables.create_temporary_system_function(name, function)
    for statement in statements:
        tables.execute_sql(statement)
    return tables


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("plus(n)", [11, 12, 13, None]),
        ("PLUS(n, n) + plus(plus(1))", [23, 25, 27, None]),
        ("doubled(n)", [2, 4, 6, None]),
        ("CASE WHEN n > 1 THEN doubled(n) END", [None, 4, 6, None]),
        ("plus(CAST(1 AS TINYINT), 2)", [3, 3, 3, 3]),
        ("COALESCE(doubled(n), plus(1, 2))", [2, 4, 6, 3]),
    ],
)
def test_scalar_functions(expression: str, values: list[Any]) -> None:
    assert [row[0] for row in rows(with_functions(), f"SELECT {expression} FROM sales")] == values


def test_scalar_functions_choose_and_group() -> None:
    tables = with_functions()
    assert rows(tables, "SELECT item FROM sales WHERE plus(n) > 11") == [("rye",), ("tea",)]
    assert rows(tables, "SELECT plus(n), COUNT(*) FROM sales WHERE n < 2 GROUP BY plus(n)") == [(11, 1)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("DECIMAL(10, 2)", "12.50"),
        ("DATE", datetime.date(2024, 2, 29)),
        ("ARRAY<INT>", [1, 2]),
        ("MAP<STRING, INT>", {"a": 1}),
        ("ROW<a INT, b STRING>", Row(a=1, b="x")),
        ("BYTES", b"x"),
    ],
)
def test_values_of_all_types_come_and_go(type_: str, value: Any) -> None:
    made = Decimal(value) if type_.startswith("DECIMAL") else value

    def same(given: Any) -> Any:
        assert (type(given), given) == (type(made), made)
        return given

    tables = session()
    tables.create_temporary_function("made", udf(lambda: made, result_type=type_))
    tables.create_temporary_function("same", udf(same, result_type=type_))
    assert rows(tables, "SELECT same(made())") == [(made,)]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (DataTypes.BOOLEAN(), "BOOLEAN"),
        (DataTypes.TINYINT(), "TINYINT"),
        (DataTypes.SMALLINT(), "SMALLINT"),
        (DataTypes.INT(False), "INT NOT NULL"),
        (DataTypes.BIGINT().not_null(), "BIGINT NOT NULL"),
        (DataTypes.FLOAT(), "FLOAT"),
        (DataTypes.DOUBLE(), "DOUBLE"),
        (DataTypes.DECIMAL(10, 2), "DECIMAL(10, 2)"),
        (DataTypes.CHAR(3), "CHAR(3)"),
        (DataTypes.VARCHAR(7), "VARCHAR(7)"),
        (DataTypes.STRING(nullable=False), "STRING NOT NULL"),
        (DataTypes.BINARY(3), "BINARY(3)"),
        (DataTypes.VARBINARY(7), "VARBINARY(7)"),
        (DataTypes.BYTES(), "BYTES"),
        (DataTypes.DATE(), "DATE"),
        (DataTypes.TIME(), "TIME(0)"),
        (DataTypes.TIMESTAMP(3, False), "TIMESTAMP(3) NOT NULL"),
        (DataTypes.TIMESTAMP_LTZ(), "TIMESTAMP_LTZ(6)"),
        (DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(3), "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        (DataTypes.ARRAY(DataTypes.INT(False)), "ARRAY<INT NOT NULL>"),
        (DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), "MAP<STRING, INT>"),
        (DataTypes.MULTISET(DataTypes.STRING()), "MULTISET<STRING>"),
        (
            DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.DATE(), "a day")]),
            "ROW<a INT, b DATE 'a day'>",
        ),
    ],
)
def test_types_of_programs_are_those_of_texts(type_: Any, text: str) -> None:
    assert logical_type(type_) == logical_type(text)
    assert logical_type(type_).as_sql() == logical_type(text).as_sql()


def test_intervals_of_programs() -> None:
    whole = DataTypes.INTERVAL(DataTypes.YEAR(4), DataTypes.MONTH())
    parts = DataTypes.INTERVAL(DataTypes.DAY(3), DataTypes.SECOND(0))
    assert [str(whole), str(parts)] == ["INTERVAL YEAR(4) TO MONTH", "INTERVAL DAY(3) TO SECOND(0)"]
    assert str(DataTypes.INTERVAL(DataTypes.HOUR(), DataTypes.MINUTE())) == "INTERVAL HOUR TO MINUTE"
    assert str(DataTypes.INTERVAL(DataTypes.SECOND(3))) == "INTERVAL SECOND(3)"
    assert str(DataTypes.NULL()) == "NULL"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: logical_type(DataTypes.INT), r"write DataTypes.INT\(\)"),
        (lambda: DataTypes.ARRAY(DataTypes.INT), r"write DataTypes.INT\(\)"),  # type: ignore[arg-type]
        (lambda: DataTypes.ROW([DataTypes.INT()]), r"DataTypes.FIELD\(name, type\)"),  # type: ignore[list-item]
        (lambda: DataTypes.DECIMAL(40, 2), "from 1 to 38"),
        (lambda: DataTypes.INTERVAL(DataTypes.SECOND(), DataTypes.DAY()), "the smaller unit comes last"),
        (lambda: DataTypes.LIST_VIEW(DataTypes.INT()), "let the accumulator be a list or a dict"),
        (lambda: DataTypes.MAP_VIEW(DataTypes.INT(), DataTypes.INT()), "let the accumulator be a list or a dict"),
    ],
)
def test_wrong_types_of_programs_are_refused(make: Any, message: str) -> None:
    with pytest.raises(HeadraceError, match=message):
        make()


def test_a_program_for_pyflink_declares_its_functions() -> None:
    tables = session()
    pair = [DataTypes.STRING(), DataTypes.INT()]
    tables.create_temporary_function("add_one", udf(lambda i: i + 1, result_type=DataTypes.BIGINT()))
    tables.create_temporary_function("sized", udtf(lambda t: ((w, len(w)) for w in t.split()), result_types=pair))
    query = "SELECT w, add_one(n) FROM (VALUES ('a bc')) AS t(s), LATERAL TABLE(sized(s)) AS u(w, n)"
    assert sorted(rows(tables, query)) == [("a", 2), ("bc", 3)]


def test_functions_are_opened_and_closed() -> None:
    events: list[str] = []

    class Traced(ScalarFunction):
        def open(self, function_context: FunctionContext) -> None:
            self.factor = int(function_context.get_job_parameter("factor", "2"))
            events.append(f"open {function_context.get_index_of_this_subtask()}")

        def eval(self, value: int) -> int:
            events.append("eval")
            return value * self.factor

        def close(self) -> None:
            events.append("close")

        def __reduce__(self) -> Any:
            return _Same(self)

    class _Same:
        pass

    function = Traced()
    Traced.__reduce__ = lambda self: (_the, ())  # type: ignore[method-assign,assignment]
    _held.append(function)
    tables = session()
    tables.create_temporary_function("f", function)
    assert rows(tables, "SELECT f(n) FROM (VALUES (1), (2)) AS t(n) WHERE f(n) > 0") == [(2,), (4,)]
    assert events.count("eval") == 4
    assert events[0] == "open 0"
    assert events.count("close") == events.count("open 0")


_held: list[Any] = []


def _the() -> Any:
    return _held[-1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT letter, place FROM TABLE(letters('ab'))", [("a", 0), ("b", 1)]),
        (
            "SELECT item, l FROM sales, LATERAL TABLE(letters(item)) AS t(l, p) WHERE n = 2 AND p > 0",
            [("rye", "y"), ("rye", "e")],
        ),
        ("SELECT s, letter FROM (VALUES ('a'), ('')) AS v(s) CROSS JOIN LATERAL TABLE(letters(s))", [("a", "a")]),
        (
            "SELECT s, letter FROM (VALUES ('a'), ('')) AS v(s) LEFT JOIN LATERAL TABLE(letters(s)) ON TRUE",
            [("a", "a"), ("", None)],
        ),
        (
            "SELECT s, l FROM (VALUES ('ab')) AS v(s) LEFT JOIN LATERAL TABLE(letters(UPPER(s))) AS t(l, p) ON l = 'C'",
            [("ab", None)],
        ),
    ],
)
def test_table_functions(query: str, expected: list[Any]) -> None:
    assert rows(with_functions(), query) == expected


def test_table_functions_of_one_column_give_values() -> None:
    class Numbers(TableFunction):
        def eval(self, count: int) -> Any:
            return range(count) if count else None

    tables = session()
    tables.create_temporary_function("numbers", udtf(Numbers(), result_types=["INT"]))
    query = "SELECT n, i FROM (VALUES (0), (2)) AS v(n), LATERAL TABLE(numbers(n)) AS t(i)"
    assert rows(tables, query) == [(2, 0), (2, 1)]


def changes(tables: TableEnvironment, query: str) -> list[str]:
    with tables.execute_sql(query).collect() as found:
        return [f"{row.get_row_kind()}{tuple(row)}" for row in found]


@pytest.mark.parametrize("function", [Mean(), MergingMean()])
@pytest.mark.parametrize("accumulator", ["ROW<total BIGINT, number BIGINT>", None])
def test_aggregate_functions_update_with_every_row(function: Any, accumulator: str | None) -> None:
    tables = session(SALES)
    tables.create_temporary_function("mean", udaf(function, result_type="DOUBLE", accumulator_type=accumulator))
    found = changes(tables, "SELECT item, mean(n) FROM sales GROUP BY item")
    assert found == ["+I('tea', 1.0)", "+I('rye', 2.0)", "-U('tea', 1.0)", "+U('tea', 2.0)"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT item, mean(n) FROM sales GROUP BY item", [("rye", 2.0), ("tea", 2.0)]),
        ("SELECT item, mean(n) FILTER (WHERE n > 1) AS m FROM sales GROUP BY item", [("rye", 2.0), ("tea", 3.0)]),
        ("SELECT item FROM sales GROUP BY item HAVING mean(n) < 2", []),
        (
            "SELECT mean(n) OVER (PARTITION BY item ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sales",
            [(1.0,), (2.0,), (2.0,), (3.0,)],
        ),
        ("SELECT mean(top) FROM (SELECT item, MAX(n) AS top FROM sales GROUP BY item)", [(2.5,)]),
    ],
)
def test_aggregate_functions_in_batch_mode(query: str, expected: list[Any]) -> None:
    assert sorted(rows(with_functions(is_streaming=False), query)) == expected


def test_aggregate_functions_take_rows_back() -> None:
    query = "SELECT mean(top) FROM (SELECT item, MAX(n) AS top FROM sales WHERE n IS NOT NULL GROUP BY item)"
    found = changes(with_functions(), query)
    assert found[-1] == "+U(2.5,)"


@pytest.mark.parametrize("function", [Mean(), MergingMean()])
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", [("rye", 2.0), ("tea", 2.0), ("tea", None)]),
        (
            "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
            [("rye", 2.0), ("tea", 2.0), ("rye", 2.0), ("tea", 2.0), ("tea", None)],
        ),
    ],
)
def test_aggregate_functions_of_windows(tmp_path: Path, function: Any, window: str, expected: list[Any]) -> None:
    times = {"tea,1": "00:01", "rye,2": "00:02", "tea,3": "00:03", "tea,": "01:04"}
    (tmp_path / "sales.csv").write_text("".join(f"{row},2024-01-01 00:{time}\n" for row, time in times.items()))
    tables = session()
    tables.execute_sql(
        "CREATE TEMPORARY TABLE s (item STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        f"('connector'='filesystem', 'format'='csv', 'path'='{tmp_path}')"
    )
    tables.create_temporary_function("mean", udaf(function, result_type="DOUBLE"))
    query = f"SELECT item, mean(n) FROM TABLE({window}) GROUP BY window_start, window_end, item"
    assert sorted(rows(tables, query), key=str) == sorted(expected, key=str)


def test_aggregate_functions_of_columns() -> None:
    middle = udaf(pc.max, result_type="INT", func_type="arrow")
    tables = session(SALES, is_streaming=False)
    tables.create_temporary_function("highest", middle)
    assert sorted(rows(tables, "SELECT item, highest(n) FROM sales GROUP BY item")) == [("rye", 2), ("tea", 3)]


def test_functions_are_found_by_name_as_in_flink() -> None:
    tables = session("CREATE DATABASE other")
    for name in ("f", "other.f", "`UPPER`"):
        tables.create_temporary_function(name, udf(lambda name=name: name, result_type="STRING"))
    assert rows(tables, "SELECT f(), other.f(), default_catalog.other.F(), UPPER('a')") == [
        ("f", "other.f", "other.f", "A")
    ]
    tables.create_temporary_system_function("upper", udf(lambda text: "mine", result_type="STRING"))
    assert rows(tables, "SELECT UPPER('a')") == [("mine",)]
    assert tables.list_user_defined_functions() == ["f", "upper"]
    assert "upper" in tables.list_functions()
    assert (tables.drop_temporary_system_function("upper"), tables.drop_temporary_system_function("upper")) == (
        True,
        False,
    )
    assert (tables.drop_temporary_function("f"), tables.drop_temporary_function("f")) == (True, False)
    with pytest.raises(SqlValidationError, match="no function 'f' is known"):
        tables.execute_sql("SELECT f()")
    with pytest.raises(UnsupportedOperationError, match="is called in SQL"):
        doubled(1)


def test_misspelt_names_of_functions() -> None:
    tables = session(f"CREATE FUNCTION letters AS '{__name__}.letters' LANGUAGE PYTHON")
    tables.create_temporary_system_function("with_tax", doubled)
    for statement, wanted in (
        ("SELECT wiht_tax(1)", "with_tax"),
        ("SELECT leters(1)", "letters"),
        ("SELECT * FROM TABLE(LETTER('a'))", "letters"),
        ("DESCRIBE FUNCTION leters", "letters"),
        ("SELECT UPER('a')", "UPPER"),
    ):
        with pytest.raises(SqlValidationError, match=f"Did you mean {wanted}"):
            tables.execute_sql(statement)


def test_functions_of_catalogs_are_imported_when_called() -> None:
    tables = session(
        f"CREATE FUNCTION plus AS '{__name__}.plus' LANGUAGE PYTHON",
        f"CREATE FUNCTION letters AS '{__name__}.letters' LANGUAGE PYTHON",
        "CREATE FUNCTION gone AS 'no_such_module.f' LANGUAGE PYTHON",
        "CREATE FUNCTION java AS 'org.example.F'",
    )
    assert rows(tables, "SELECT plus(1), letter FROM TABLE(letters('a'))") == [(11, "a")]
    with pytest.raises(
        SqlValidationError, match=r"'no_such_module\.f' cannot be imported: ModuleNotFoundError.*column 8"
    ):
        tables.execute_sql("SELECT gone(1)")
    with pytest.raises(SqlValidationError, match=r"written in JAVA.*column 8(.|\n)*LANGUAGE PYTHON"):
        tables.execute_sql("SELECT java(1)")
    assert (tables.drop_function("plus"), tables.drop_function("plus")) == (True, False)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT plus()", r"plus does not take \(\)(.|\n)*It takes plus\(value, \[value\]\)"),
        ("SELECT typed('a')", r"typed does not take \(CHAR\(1\) NOT NULL\)(.|\n)*It takes typed\(BIGINT\)"),
        ("SELECT letters('a')", r"letters is a table function(.|\n)*LATERAL TABLE\(letters"),
        ("SELECT * FROM TABLE(plus(1))", r"'plus' is not a table function(.|\n)*Write SELECT plus"),
        ("SELECT mean(DISTINCT n) FROM sales", r"DISTINCT(.|\n)*SELECT DISTINCT in a subquery"),
        ("SELECT plus(DISTINCT 1)", "PLUS is not an aggregate"),
        ("SELECT keep(top) FROM (SELECT item, MAX(n) AS top FROM sales GROUP BY item)", r"keep has no retract\(\)"),
    ],
)
def test_wrong_calls_are_refused(query: str, message: str) -> None:
    class Keep(AggregateFunction):
        def create_accumulator(self) -> list[int]:
            return []

        def accumulate(self, accumulator: list[int], value: int) -> None:
            accumulator[:] = [value]

        def get_value(self, accumulator: list[int]) -> int:
            return accumulator[0]

    tables = with_functions()
    tables.create_temporary_function("typed", udf(lambda n: n, "BIGINT", "BIGINT"))
    tables.create_temporary_function("keep", Keep())
    with pytest.raises(HeadraceError, match=message):
        tables.execute_sql(query)


def test_a_function_that_a_built_in_one_hides_is_called_by_its_path() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("headrace.runtime", "local")
    tables.create_temporary_function("split", udtf(lambda text: [(text, 1)], result_types=["STRING", "INT"]))
    whole = "`default_catalog`.`default_database`.`split`"
    with pytest.raises(SqlValidationError, match="The built-in SPLIT hides yours: call `default_catalog`"):
        tables.execute_sql("SELECT * FROM TABLE(split('a'))")
    assert rows(tables, f"SELECT * FROM TABLE({whole}('a'))") == [("a", 1)]
    tables.create_temporary_function("own", udf(lambda text: text, result_type="STRING"))
    with pytest.raises(SqlValidationError, match=r"'own' is not a table function.*\n.*\n.*\nWrite SELECT own"):
        tables.execute_sql("SELECT * FROM TABLE(own('a'))")


def _fails(*_: Any) -> int:
    raise ValueError("no tea")


class FailingMean(Mean):
    def accumulate(self, accumulator: Any, value: int | None) -> None:
        raise ValueError("no tea")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT fails(n) FROM sales WHERE n = 2",
            r"operator 'Calc'(.|\n)*\): fails\(2\) failed\n  ValueError: no tea\n(.|\n)*record: Row\(EXPR\$1=2\)",
        ),
        ("SELECT wrong(n) FROM sales", r"has type BIGINT, but returned (.|\n)*'x'"),
        ("SELECT single(n) FROM sales", r"single(.|\n)*0 values for"),
        ("SELECT huge(n) FROM sales", r"operator 'Calc'(.|\n)*huge\(\) returned no INT: .*too large"),
        ("SELECT * FROM TABLE(row_of('a'))", r"a str was returned for the results"),
        (
            "SELECT failing(n) FROM sales",
            r"operator 'GroupAggregate'(.|\n)*accumulate\(\) failed\n  ValueError: no tea(.|\n)*arguments: \(1,\)",
        ),
    ],
)
def test_failures_name_function_row_and_operator(query: str, message: str) -> None:
    tables = with_functions()
    tables.create_temporary_function("fails", _fails)
    tables.create_temporary_function("wrong", udf(lambda n: "x", result_type="BIGINT"))
    tables.create_temporary_function("single", udf(lambda n: n[:0], result_type="INT", func_type="arrow"))
    huge = udf(lambda n: [2**70] * len(n), result_type="INT", func_type="arrow", name="huge")
    tables.create_temporary_function("huge", huge)
    tables.create_temporary_function("row_of", udtf(lambda text: text, result_types=["STRING"]))
    tables.create_temporary_function("failing", udaf(FailingMean(), result_type="DOUBLE"))
    with pytest.raises(HeadraceError, match=message):
        rows(tables, query)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: udf(lambda a: a), "needs a type"),
        (lambda: udf(Mean(), result_type="INT"), "takes a ScalarFunction"),
        (lambda: udaf(Mean, result_type="INT"), r"takes an object, not a class: write Mean\(\)"),
        (lambda: udaf(plus), "takes an AggregateFunction"),
        (lambda: udf(plus, func_type="fast"), "func_type must be one of general, pandas, arrow"),
        (lambda: session().create_temporary_function("f", 3), "is not a function"),
    ],
)
def test_wrong_definitions_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        make()
    with pytest.raises(UnsupportedOperationError, match="table aggregate functions"):
        udtaf(Mean())


def test_a_function_that_is_not_deterministic_is_called_once_a_row() -> None:
    counter = iter(range(100))
    tables = session()
    tables.create_temporary_function("tick", udf(lambda: next(counter), result_type="INT", deterministic=False))
    found = rows(tables, "SELECT a, a FROM (SELECT tick() AS a FROM (VALUES (1), (2)) AS t(n))")
    assert [pair[0] for pair in found] == [pair[1] for pair in found]
    assert len({pair[0] for pair in found}) == 2
