"""Runs a case, and says where what it gives differs from what Flink gave."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.batch import Kinds
from headrace.common.errors import HeadraceError, UnsupportedOperationError
from headrace.common.logical_types import LogicalType
from headrace.common.types import RowKind
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.bind.errors import SqlPlanError
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.schema import Schema
from headrace.table.parse import SqlParseError
from tests.table.conformance import oracle
from tests.table.conformance.values import Json, json_of, sort_text

Case = dict[str, Any]

sys.path.append(str(Path(__file__).parent / "plugin"))

_ALWAYS: Final = {
    "headrace.runtime": "local",
    "parallelism.default": "1",
    "restart-strategy.type": "none",
    "table.local-time-zone": "UTC",
}


_BEYOND_FLINK: Final = (
    "CEP doesn't support branching patterns",
    "CEP doesn't support '{-' '-}' patterns",
    "CEP doesn't support PERMUTE patterns",
    "Group patterns are not supported yet",
    "Greedy quantifiers are not allowed as the last element",
    "Reluctant optional variables are not supported yet",
    "Patterns that can produce empty matches are not supported",
    "Optional pattern cannot be preceded by greedy pattern",
    "The from should be a positive number greater than 0",
    "Pattern variables must be unique",
    "All rows per match mode is not supported yet",
    "Flink does not support physical offsets within partition",
    "Cannot use PREV/NEXT in MEASURE",
    "Unsupported call: RUNNING",
    "Unsupported call: CLASSIFIER()",
    "No match found for function signature MATCH_NUMBER()",
    "The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern",
)
"""What Flink refuses with these words is done: there is nothing to compare with, but that it is not refused."""


class NotBuiltError(Exception):
    """What a case needs is not there yet."""


def difference(case: Case, *, one_by_one: bool | None = None) -> str | None:
    """What differs from Flink, in a few words; None when all is equal.

    Args:
        case: the case.
        one_by_one: whether each event is processed before the next one; only where it matters when left out.
    """
    steps = case["expect"].get("steps", [case["expect"]])
    found_steps = answers(case, one_by_one=one_by_one)
    for number, (found, expected) in enumerate(zip(found_steps, steps, strict=False)):
        told = _compared(found, expected)
        if told is not None:
            return f"statement {number}: {told}" if len(case["sql"]) > 1 else told
    return None


def answers(case: Case, *, one_by_one: bool | None = None) -> Iterator[Json]:
    """What each statement of a case gives, in the form of ``expect``."""
    tables = _environment(case)
    for statement in case["sql"]:
        yield _step(tables, case, statement, one_by_one)


def outcome(case: Case) -> Json:
    """What the last statement of a case gives."""
    *_, last = answers(case)
    return last


def _environment(case: Case) -> TableEnvironment:
    is_batch = case["mode"] == "batch"
    settings = EnvironmentSettings.in_batch_mode() if is_batch else EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    for key, value in (_ALWAYS | case.get("options", {})).items():
        tables.get_config().set(key, value)
    for statement in case["setup"]:
        tables.execute_sql(statement)
    return tables


def _step(tables: TableEnvironment, case: Case, statement: str, one_by_one: bool | None) -> Json:
    phase = "plan"
    try:
        if case["want"] == "parse":
            tables.validate_sql(statement)
            return {"kind": "parse", "accepted": True}
        if case["want"] == "type":
            return {"kind": "type", "columns": _columns(tables.sql_query(statement).get_resolved_schema())}
        script = oracle.begin(case["inputs"], one_by_one=_is_one_by_one(case) if one_by_one is None else one_by_one)
        result = tables.execute_sql(statement)
        phase = "runtime" if result.get_job_client() is not None else phase
        return _outcome(tables, case, statement, result, script)
    except HeadraceError as error:
        if phase != "runtime":
            is_plan = isinstance(error, PlanningError | SqlPlanError | UnsupportedOperationError)
            phase = "parse" if isinstance(error, SqlParseError) else "plan" if is_plan else "validate"
            if isinstance(error, SqlPlanError) and case["want"] == "run":
                phase = "late validate"
        return {"kind": "error", "phase": phase, "message": f"{type(error).__name__}: {error}"}


def _is_one_by_one(case: Case) -> bool:
    """Whether the order can be seen in which events of several tables are processed, or of one that is read twice."""
    words = r"\b(?:JOIN|UNION|INTERSECT|EXCEPT)\b|\bIN \(SELECT|INSERT INTO.*INSERT INTO"
    is_read_twice = any(re.search(words, text, re.DOTALL) for text in case["sql"])
    return is_read_twice or len({event[0] for event in case["inputs"]}) > 1


def _outcome(tables: TableEnvironment, case: Case, statement: str, result: Any, script: oracle.Script) -> Json:
    is_batch = case["mode"] == "batch"
    if result.get_job_client() is not None and (script.sinks or statement.lstrip().upper().startswith(_WRITES)):
        result.wait()
        return {
            "kind": "sink",
            "sinks": {name: _sink(tables, name, rows, is_batch) for name, rows in script.sinks.items() if rows},
        }
    schema = result.get_resolved_schema()
    parts = [(part.columns, part.kinds) for part in result.changes()]
    rows = _rows(parts, schema.types)
    if statement.lstrip().upper().startswith("EXPLAIN"):
        return {"kind": "explain", "text": rows[0][1][0]}
    columns = _columns(schema)
    if result.get_job_client() is None or is_batch:
        return {"kind": "rows", "columns": columns, "rows": [row for _, row in rows]}
    return {"kind": "changelog", "columns": columns, **_changelog(rows, None)}


_WRITES: Final = ("INSERT", "EXECUTE", "BEGIN")


def _sink(
    tables: TableEnvironment, name: str, parts: list[tuple[pa.RecordBatch, Kinds | None]], is_batch: bool
) -> Json:
    table = tables.catalog_table(name)
    schema = Schema(tuple(column.as_field for column in table.columns if column.kind.name == "PHYSICAL"))
    rows = _rows(parts, schema.types)
    if is_batch:
        rows.sort(key=lambda row: sort_text(row[1]))
    keys = [schema.names.index(key) for key in table.primary_key.columns] if table.primary_key else None
    return {"columns": _columns(schema, plain=True), **_changelog(rows, keys)}


def _rows(parts: Iterable[tuple[pa.RecordBatch, Kinds | None]], types: Sequence[LogicalType]) -> list[Any]:
    rows = []
    for columns, kinds in parts:
        fields = [json_of(column, kind) for column, kind in zip(columns.columns, types, strict=False)]
        symbols = ["+I"] * columns.num_rows if kinds is None else [str(RowKind(kind)) for kind in kinds.tolist()]
        values = zip(*fields, strict=True) if fields else [()] * columns.num_rows
        rows += [(symbol, list(row)) for symbol, row in zip(symbols, values, strict=True)]
    return rows


def _changelog(rows: list[tuple[str, Json]], keys: list[int] | None) -> Json:
    left: list[Json] = []
    by_key: dict[str, Json] = {}
    for kind, row in rows:
        if keys is not None:
            key = sort_text([row[index] for index in keys])
            if kind in ("+I", "+U"):
                by_key[key] = row
            elif kind == "-D":
                by_key.pop(key, None)
        elif kind in ("+I", "+U"):
            left.append(row)
        elif row in left:
            left.remove(row)
    final = sorted([*left, *by_key.values()], key=sort_text)
    return {"changelog": [[kind, row] for kind, row in rows], "final": final}


def _columns(schema: Schema, *, plain: bool = False) -> Json:
    return [[field.name, str(field.type) if plain else field.type_text] for field in schema]


# --- comparing -------------------------------------------------------------------------------------------------------


def _compared(found: Json, expected: Json) -> str | None:
    if found["kind"] != expected["kind"]:
        refused = str(expected.get("root_message")) if expected["kind"] == "error" else ""
        if found["kind"] != "error" and any(words in refused for words in _BEYOND_FLINK):
            return None
        return f"{found['kind']} in place of {expected['kind']}: {_short(found.get('message', found))}"
    return _COMPARE[found["kind"]](found, expected)


def _same_error(found: Json, expected: Json) -> str | None:
    phases = [{"parse": "validate"}.get(each["phase"], each["phase"]) for each in (found, expected)]
    if phases[0] == phases[1] or (phases[0] == "late validate" and phases[1] in ("plan", "validate")):
        return None  # what is found out when a statement is planned, Flink reports as either
    return f"error of phase {phases[0]} in place of {phases[1]}: {_short(found['message'])}"


def _same_columns(found: Json, expected: Json) -> str | None:
    if found["columns"] == expected["columns"]:
        return None
    return f"columns {_short(found['columns'])} in place of {_short(expected['columns'])}"


def _same_rows(found: Json, expected: Json) -> str | None:
    key: Callable[[Json], Json] = (lambda rows: rows) if expected["ordered"] else _sorted
    return _same_columns(found, expected) or _same("rows", key(found["rows"]), key(expected["rows"]), found)


def _sorted(rows: Json) -> Json:
    return sorted(rows, key=lambda row: sort_text(_plain(row)))


def _same_changelog(found: Json, expected: Json) -> str | None:
    told = _same_columns(found, expected) or _same(
        "final rows", _sorted(found["final"]), _sorted(expected["final"]), found
    )
    if told is None and expected.get("order_stable", True):
        told = _same("changelog", found["changelog"], expected["changelog"], found)
    return told


def _same_sinks(found: Json, expected: Json) -> str | None:
    found, expected = found["sinks"], expected["sinks"]
    if sorted(found) != sorted(expected):
        return f"sinks {sorted(found)} in place of {sorted(expected)}"
    return next((told for name in expected if (told := _same_changelog(found[name], expected[name]))), None)


def _same_text(found: Json, expected: Json) -> str | None:
    return _same("text", found["text"], expected["text"], found)


def _same(what: str, found: Json, expected: Json, whole: Json) -> str | None:
    types = [kind for _, kind in whole.get("columns", [])]
    if _equal(found, expected, any("FLOAT" in kind for kind in types)):
        return None
    if isinstance(found, str):
        return f"{what}:\n{found}\nin place of\n{expected}"
    return f"{what} {_short(found)} in place of {_short(expected)}"


def _equal(found: Json, expected: Json, has_floats: bool) -> bool:
    if found == expected:
        return True
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(
            _equal(one, other, has_floats) for one, other in zip(found, expected, strict=True)
        )
    numbers = (int, float)
    if has_floats and isinstance(found, numbers) and isinstance(expected, numbers):
        return bool(np.float32(found) == np.float32(expected))
    return False


def _plain(value: Json) -> Json:
    """Numbers in one form, so that rows are sorted alike."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if isinstance(value, float) else value


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else sort_text(value)
    return text if len(text) <= 2000 else f"{text[:2000]}..."


_COMPARE: Final = {
    "parse": lambda found, expected: None,
    "error": _same_error,
    "type": _same_columns,
    "rows": _same_rows,
    "changelog": _same_changelog,
    "sink": _same_sinks,
    "explain": _same_text,
}
