"""The documents of ``headrace explain --format json`` have the keys that the page says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from tests.docs.documents import DOCS, ROOT, between, tables

EXAMPLE = ROOT / "examples" / "card_fraud" / "job.py"


def documented() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    document = ""
    for first, of, keys in tables(between((DOCS / "cli.md").read_text(), "json")):
        document = first or document
        found[document, of] = set(re.findall("`(.*?)`", keys))
    return found


def explained(*options: str) -> Any:
    ran = CliRunner().invoke(app, ["explain", "--format", "json", *options, str(EXAMPLE)])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def keys(documents: list[dict[str, Any]]) -> set[str]:
    return set().union(*documents)


@pytest.mark.slow
def test_the_physical_document() -> None:
    plan, said = explained("--physical"), documented()
    assert said["physical", "the job"] == keys([plan])
    assert said["physical", "a stage"] == keys(plan["stages"])
    assert said["physical", "an operator"] == keys([op for stage in plan["stages"] for op in stage["operators"]])
    assert said["physical", "an edge"] == keys(plan["edges"])


def test_the_logical_document() -> None:
    graph, said = explained("--logical"), documented()
    assert said["logical", "the job"] == keys([graph])
    assert said["logical", "a node"] == keys(graph["nodes"])
    assert said["logical", "a predecessor"] == keys(
        [edge for node in graph["nodes"] for edge in node.get("predecessors", [])]
    )
    assert None in {node["parallelism"] for node in graph["nodes"]}
