"""The cases of SQL with the answers of Flink 2.3, which tests of several passes replay.

A case is a line of JSON: statements of ``setup`` that all succeed, statements of ``sql`` of which the last ones may
not be reached, and what was expected of each in ``expect``, or in its ``steps``. ``HEADRACE_SQL_CASES`` names another
folder of cases.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@cache
def cases() -> list[dict[str, Any]]:
    folder = os.environ.get("HEADRACE_SQL_CASES")
    files = sorted(Path(folder).glob("*.jsonl")) if folder else []
    lines = [line for file in files for line in file.read_text().splitlines()]
    if not lines:
        lines = gzip.decompress((HERE / "cases.jsonl.gz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines]


@cache
def neighbors() -> list[dict[str, Any]]:
    """Cases of the same kinds beside those of the corpus, with Flink's answers, whose differences were mended."""
    return [
        json.loads(line) for line in gzip.decompress((HERE / "neighbors.jsonl.gz").read_bytes()).decode().splitlines()
    ]


@cache
def nexmark() -> list[dict[str, Any]]:
    """The queries of Nexmark, with Flink's answers, of which the rows count and not the order of changes."""
    return [
        json.loads(line) for line in gzip.decompress((HERE / "nexmark.jsonl.gz").read_bytes()).decode().splitlines()
    ]


def groups() -> list[str]:
    return sorted({case["group"] for case in cases()})


def statements(group: str) -> Iterator[tuple[str, str, bool]]:
    """The id of the case, each statement that was run, and whether Flink's parser took it."""
    for case in cases():
        if case["group"] == group:
            yield from ((case["id"], statement, True) for statement in case["setup"])
            steps = case["expect"].get("steps", [case["expect"]])
            for statement, step in zip(case["sql"], steps, strict=False):
                yield case["id"], statement, (step["kind"], step.get("phase")) != ("error", "parse")


def known_differences(group: str) -> list[str]:
    """The ids of the cases of a group that are not equal yet, or never will be."""
    file = HERE / "differences" / f"{group}.txt"
    return file.read_text().split() if file.exists() else []


def write_known_differences(group: str, names: list[str]) -> None:
    file = HERE / "differences" / f"{group}.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{name}\n" for name in sorted(names)))
