"""``ML_PREDICT`` over models of Python: what they are given, what comes of their results, and what is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.common import plugins
from headrace.common.errors import HeadraceError
from headrace.operators.prediction import Model
from headrace.table.logical.errors import PlanningError
from headrace.table.models.provider import ModelContext, ModelProvider
from headrace.table.parse.source import SqlError
from tests.table.connectors.session import rows, session

HERE = "tests.table.environment.test_models"
ROWS = (
    "CREATE VIEW t AS SELECT * FROM "
    "(VALUES (1, 1.5e0, 'a'), (2, CAST(NULL AS DOUBLE), 'b'), (3, 3e0, 'c')) AS t(id, x, s)"
)
CALL = "SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x))"

calls = Counter[str]()
sizes: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    calls.clear()
    sizes.clear()


def doubled(features: pa.RecordBatch) -> pa.Array:
    """A column of its own."""
    sizes.append(features.num_rows)
    return pc.multiply(features.column("x"), 2.0)


def in_forms(features: pa.RecordBatch, form: str) -> Any:
    """Two outputs in all forms."""
    x = features.column("x").fill_null(0.0)
    columns = {"y": pc.add(x, 1.0), "z": pc.greater(x, 1.0)}
    forms = {
        "mapping": lambda: columns,
        "batch": lambda: pa.RecordBatch.from_pydict(columns),
        "table": lambda: pa.table({"other": x, **columns}),
        "pandas": lambda: pa.table(columns).to_pandas(),
        "tuple": lambda: tuple(columns.values()),
        "array": lambda: np.array([columns["y"].to_pylist(), columns["z"].to_pylist()], object).T,
        "lists": lambda: {name: column.to_pylist() for name, column in columns.items()},
        "short": lambda: {"y": [1.0], "z": [True]},
        "missing": lambda: {"y": x},
        "one": lambda: x,
        "three": lambda: (x, x, x),
        "texts": lambda: {"y": ["no"] * len(x), "z": columns["z"]},
        "nulls": lambda: {"y": features.column("x"), "z": columns["z"]},
    }
    return forms[form]()


class Scaled:
    """A class as those of scikit-learn, which is made, opened and closed once."""

    def __init__(self, factor: str = "1") -> None:
        calls["made"] += 1
        self.factor = float(factor)

    def open(self, function_context: Any) -> None:
        calls["opened"] += 1

    def predict(self, features: pa.RecordBatch) -> Any:
        return pc.multiply(features.column(0), self.factor)

    def close(self) -> None:
        calls["closed"] += 1


class Service:
    """A class that is awaited, with clients of its event loop."""

    async def open(self, function_context: Any) -> None:
        self.loop = asyncio.get_running_loop()
        calls["opened"] += 1

    async def predict(self, features: pa.RecordBatch) -> Any:
        assert self.loop is asyncio.get_running_loop()
        calls["asked"] += 1
        await asyncio.sleep(0)
        return {"y": features.column(0)}

    async def close(self) -> None:
        calls["closed"] += 1


class HalfAwaited(Scaled):
    """A class of which one method only is awaited."""

    async def open(self, function_context: Any) -> None:  # type: ignore[override] # the mistake that is tested
        raise AssertionError("nobody awaits it")


def fails(features: pa.RecordBatch) -> Any:
    """A model that fails."""
    raise ValueError("no weights")


async def never(features: pa.RecordBatch) -> Any:
    """A model that does not answer."""
    await asyncio.Event().wait()


NUMBER = 5


def modelled(name: str, outputs: str = "y DOUBLE", inputs: str = "x DOUBLE", options: str = "", **settings: str) -> Any:
    """A session with rows and a model."""
    given = f"'provider' = 'python', 'model' = '{HERE}.{name}'{options}"
    return session(ROWS, f"CREATE MODEL m INPUT ({inputs}) OUTPUT ({outputs}) WITH ({given})", **settings)


def test_a_function_gets_batches_of_features() -> None:
    tables = modelled("doubled")
    assert rows(tables, CALL) == [(1, 1.5, "a", 3.0), (2, None, "b", None), (3, 3.0, "c", 6.0)]
    assert sizes == [3]
    sizes.clear()
    rows(modelled("doubled", options=", 'batch-size' = '2'"), CALL)
    assert sizes == [2, 1]


def test_features_are_cast_to_the_inputs_of_the_model() -> None:
    tables = modelled("doubled")
    query = "SELECT id, y FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(id)) WHERE y > 2"
    assert rows(tables, query) == [(2, 4.0), (3, 6.0)]


@pytest.mark.parametrize("form", ["mapping", "batch", "table", "pandas", "tuple", "array", "lists"])
def test_results_come_in_many_forms(form: str) -> None:
    tables = modelled("in_forms", "y DOUBLE, z BOOLEAN", options=f", 'arguments.form' = '{form}'")
    assert [row[3:] for row in rows(tables, CALL)] == [(2.5, True), (1.0, False), (4.0, True)]


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("short", "output 'y': 1 values for 3 rows"),
        ("missing", "no output 'z', but y"),
        ("one", "for 2 outputs: return a dict of columns"),
        ("three", "3 columns for 2 outputs: y, z"),
        ("texts", "no DOUBLE for its output 'y'"),
    ],
)
def test_results_that_do_not_fit_are_told(form: str, told: str) -> None:
    tables = modelled("in_forms", "y DOUBLE, z BOOLEAN", options=f", 'arguments.form' = '{form}'")
    with pytest.raises(HeadraceError, match=told) as error:
        rows(tables, CALL)
    assert "test_models.py" in str(error.value)


def test_what_is_not_null_is_neither_given_nor_taken_as_null() -> None:
    tables = modelled("doubled", inputs="x DOUBLE NOT NULL")
    told = r"column 'x' may be NULL, and model input 'x' is DOUBLE NOT NULL, at position 0[\s\S]*Write COALESCE\(x"
    with pytest.raises(SqlError, match=told):
        rows(tables, CALL)
    query = CALL.replace("TABLE t", "(SELECT COALESCE(x, 0e0) AS x FROM t)")
    assert rows(tables, query) == [(1.5, 3.0), (0.0, 0.0), (3.0, 6.0)]
    tables = modelled("in_forms", "y DOUBLE NOT NULL, z BOOLEAN", options=", 'arguments.form' = 'nulls'")
    with pytest.raises(HeadraceError, match="no DOUBLE NOT NULL for its output 'y': one is NULL"):
        rows(tables, CALL)


def test_an_instance_is_made_once_and_closed() -> None:
    tables = modelled("Scaled", options=", 'arguments.factor' = '10'")
    both = f"{CALL} UNION ALL SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(id))"
    assert sorted(row[3] or 0.0 for row in rows(tables, both)) == [0.0, 10.0, 15.0, 20.0, 30.0, 30.0]
    assert calls == {"made": 1, "opened": 1, "closed": 1}


def test_requests_are_made_many_at_a_time_in_order() -> None:
    tables = modelled("Service")
    assert [row[3] for row in rows(tables, CALL)] == [1.5, None, 3.0]
    assert calls == {"opened": 1, "asked": 3, "closed": 1}
    calls.clear()
    config = "MAP['batch-size', '2', 'max-concurrent-operations', '1', 'output-mode', 'ALLOW_UNORDERED']"
    assert [row[3] for row in rows(tables, CALL.replace("(x)", f"(x), {config}"))] == [1.5, None, 3.0]
    assert calls["asked"] == 2
    threads = CALL.replace("(x)", "(x), MAP['async', 'true']")
    assert [row[3] for row in rows(modelled("doubled"), threads)] == [3.0, None, 6.0]


def test_a_model_that_fails_or_is_late_fails_the_job() -> None:
    told = r"operator 'MLPredictTableFunction: m'[\s\S]*ValueError: no weights[\s\S]*test_models\.py"
    with pytest.raises(HeadraceError, match=told):
        rows(modelled("fails"), CALL)
    with pytest.raises(HeadraceError, match="nothing in time"):
        rows(modelled("never", **{"table.exec.async-ml-predict.timeout": "1 ms"}), CALL)


def test_names_of_outputs_are_made_unique() -> None:
    tables = modelled("Scaled", "id DOUBLE")
    with tables.execute_sql(CALL).collect() as found:
        assert next(iter(found)).as_dict().keys() == {"id", "x", "s", "id0"}


def test_changes_are_refused_as_in_flink() -> None:
    query = "SELECT s, y FROM ML_PREDICT((SELECT s, MAX(x) x FROM t GROUP BY s), MODEL m, DESCRIPTOR(x))"
    with pytest.raises(PlanningError, match="StreamPhysicalMLPredictTableFunction doesn't support consuming update"):
        rows(modelled("doubled"), query)


@pytest.mark.parametrize(
    ("call", "told", "at"),
    [
        ("TABLE t, MODEL n, DESCRIPTOR(x)", "model 'default_catalog.default_database.n' does not exist", "n, "),
        ("TABLE t, 'm', DESCRIPTOR(x)", "argument MODEL of ML_PREDICT expects a model", "'m'"),
        ("TABLE t, m, DESCRIPTOR(x)", "Write MODEL m.", "m"),
        ("TABLE t, MODEL m, DESCRIPTOR(y)", "column 'y' not found", "y"),
        ("TABLE t, MODEL m, DESCRIPTOR(x, id)", "columns (2) does not match model input size (1)", "DESCRIPTOR(x, id)"),
        ("TABLE t, MODEL m, DESCRIPTOR(s)", "cannot be assigned to model input type DOUBLE at position 0", "s"),
        ("TABLE t, MODEL m, x", "expects DESCRIPTOR", "x"),
        ("TABLE t, MODEL m", "needs ARGS", "ML_PREDICT"),
        ("TABLE t PARTITION BY id, MODEL m, DESCRIPTOR(x)", "without PARTITION BY", "TABLE t"),
        ("TABLE t, MODEL m, DESCRIPTOR(x), MAP['async', 'perhaps']", "async", "'async'"),
        (
            "TABLE t, MODEL m, DESCRIPTOR(x), MAP['max-concurrent-operations', '0']",
            "max-concurrent-operations",
            "'max-concurrent-operations'",
        ),
        ("TABLE t, MODEL m, DESCRIPTOR(x), MAP['size', '1']", "has no option 'size'", "'size'"),
        (
            "TABLE t, MODEL m, DESCRIPTOR(x), MAP['timeout', '1 s', 'asnyc', 'true']",
            "Did you mean async?",
            "'asnyc'",
        ),
        (
            "TABLE t, MODEL m, DESCRIPTOR(x), MAP['size', '1', 'speed', '2']",
            "A call may have async, output-mode, max-concurrent-operations, timeout, and the options of the model.",
            "MAP",
        ),
        ("TABLE t, MODEL m, DESCRIPTOR(x), MAP['async', LOWER('TRUE')]", "literal texts", "LOWER('TRUE')"),
        ("TABLE t, MODEL m, DESCRIPTOR(x), 'async'", "is a map", "'async'"),
        ("INPUT => TABLE t, MODEL => MODEL m, ARG => DESCRIPTOR(x)", "no such parameter", "ARG"),
    ],
)
def test_mistakes_are_told_at_their_place(call: str, told: str, at: str) -> None:
    query = f"SELECT * FROM ML_PREDICT({call})"
    with pytest.raises(SqlError) as error:
        rows(modelled("doubled"), query)
    assert told in str(error.value)
    assert query[error.value.position.offset :].startswith(at)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("'provider' = 'pythn'", "no model provider 'pythn': did you mean 'python'"),
        ("'provider' = 'openai'", "write an async def"),
        ("'model' = 'm.f'", "no option 'provider'"),
        ("'provider' = 'python'", "needs 'model'"),
        ("'provider' = 'python', 'model' = 'no_module.f'", "cannot be imported"),
        (f"'provider' = 'python', 'model' = '{HERE}.NUMBER'", "neither a function nor a class"),
        (f"'provider' = 'python', 'model' = '{HERE}.HalfAwaited'", "make predict async def, too"),
        (f"'provider' = 'python', 'model' = '{HERE}.doubled', 'batch-size' = '0'", "batch-size"),
    ],
)
def test_models_that_cannot_be_made_are_told_where_they_are_called(options: str, told: str) -> None:
    tables = session(ROWS, f"CREATE MODEL m INPUT (x DOUBLE) OUTPUT (y DOUBLE) WITH ({options})")
    with pytest.raises(SqlError, match=r"model default_catalog\.default_database\.m: ") as error:
        rows(tables, CALL)
    assert told in str(error.value)


def test_an_awaited_model_cannot_be_called_in_place() -> None:
    with pytest.raises(SqlError, match="is async def: leave 'async' out"):
        rows(modelled("Service"), CALL.replace("(x)", "(x), MAP['async', 'false']"))


def test_models_are_not_evaluated() -> None:
    call = "ML_EVALUATE(TABLE t, MODEL m, DESCRIPTOR(x), DESCRIPTOR(x), 'regression')"
    with pytest.raises(SqlError, match="ML_EVALUATE has no plan"):
        rows(modelled("doubled"), f"SELECT * FROM {call}")


def test_a_distribution_adds_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = EntryPoints([EntryPoint("constant", f"{HERE}:Constants", "headrace.table.models")])
    monkeypatch.setattr(plugins, "_installed", lambda group: entries.select(group=group))
    tables = session(ROWS, "CREATE MODEL m INPUT (x DOUBLE) OUTPUT (y DOUBLE) WITH ('provider' = 'constant')")
    assert [row[3] for row in rows(tables, CALL)] == [7.0, 7.0, 7.0]


class Constants(ModelProvider):
    """A provider of another distribution."""

    def create_model(self, context: ModelContext) -> Model:
        from headrace.table.models.python import PythonModel

        return PythonModel("sevens", sevens, (), context.outputs, False, False, None)


def sevens(features: pa.RecordBatch) -> Any:
    """The same for all."""
    return [7.0] * features.num_rows


def test_a_compiled_plan_has_the_model() -> None:
    tables = modelled("doubled")
    tables.execute_sql("CREATE TABLE n (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '2')")
    tables.execute_sql("CREATE TABLE p (id INT, y DOUBLE) WITH ('connector' = 'blackhole')")
    insert = "INSERT INTO p SELECT id, y FROM ML_PREDICT(TABLE n, MODEL m, DESCRIPTOR(id))"
    plan = tables.compile_plan_sql(insert)
    tables.execute_sql("DROP MODEL m")
    plan.execute().wait()
    assert sum(sizes) == 2
