"""Each query of the corpus in batch and in streaming mode, which have to end in the same table.

Batch mode reads the rows that changes leave. As event time makes rows late in streaming mode only, watermarks stay so
far behind there that no row is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tests.table.conformance.replay import Case, answers
from tests.table.conformance.values import Json, sort_text

_CHANGES: Final = re.compile(r",\s*'changelog-mode'\s*=\s*'[^']*'")
_WATERMARK: Final = re.compile(r"WATERMARK FOR (`?\w+`?) AS [\w`]+(?: - INTERVAL '[^']*' \w+)?")
_KEY: Final = re.compile(r"PRIMARY KEY \(([^)]*)\)")
_TABLE: Final = re.compile(r"CREATE TABLE `?(\w+)`? \((.*)", re.DOTALL)


def difference_of_modes(case: Case) -> str | None:
    """How the tables differ that a query ends in; None where they are equal."""
    found = {mode: _final(_in_mode(case, mode)) for mode in ("batch", "streaming")}
    if found["batch"] == found["streaming"]:
        return None
    return f"batch {str(found['batch'])[:600]}, streaming {str(found['streaming'])[:600]}"


def _in_mode(case: Case, mode: str) -> Case:
    setup = [_WATERMARK.sub(r"WATERMARK FOR \1 AS \1 - INTERVAL '99' DAY", each) for each in case["setup"]]
    if mode == "streaming":
        return {**case, "mode": mode, "setup": setup}
    inputs = _left(case["setup"], case["inputs"])
    return {**case, "mode": mode, "setup": [_CHANGES.sub("", each) for each in setup], "inputs": inputs}


def _left(setup: list[str], events: list[Json]) -> list[Json]:
    """The rows that changes leave, as insertions in the order in which they came."""
    keys = {table: key for statement in setup for table, key in _upserted(statement).items()}
    left: list[Json] = []
    for event in events:
        table, kind, row = event[:3]
        if kind == "-U" and table in keys:
            continue
        if kind != "+I":
            taken = (each for each in left if each[0] == table and _is_same(each[2], row, kind, keys.get(table)))
            former = next(taken, None)
            if former is not None:
                left.remove(former)
        if kind in ("+I", "+U"):
            left.append([table, "+I", *event[2:]])
    return left


def _is_same(former: Json, row: Json, kind: str, key: list[int] | None) -> bool:
    """Whether a change takes this row back: one with its key, or an equal one that is not only updated."""
    if key is not None:
        return all(former[place] == row[place] for place in key)
    return kind != "+U" and bool(former == row)


def _upserted(statement: str) -> dict[str, list[int]]:
    """The places of the key of a table that is given without the rows before updates."""
    found, key = _TABLE.match(statement), _KEY.search(statement)
    if found is None or key is None or "'I,UA,D'" not in statement:
        return {}
    columns = [part.split()[0] for part in found[2].split(", ")]
    return {found[1]: [columns.index(name.strip()) for name in key[1].split(",")]}


def _final(case: Case) -> Mapping[str, Any]:
    *_, last = answers(case, one_by_one=False)
    match last["kind"]:
        case "changelog":
            return {"rows": last["final"]}
        case "rows":
            return {"rows": sorted(last["rows"], key=sort_text)}
        case "sink":
            return {name: sink["final"] for name, sink in last["sinks"].items() if sink["final"]}
        case _:
            return {"error": last["message"]}
