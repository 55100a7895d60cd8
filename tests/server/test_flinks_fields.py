"""Paths, statuses and fields are those of Flink 2.3, as its own classes declare them (``flink_2_3.json``)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from headrace.server.routes import ROUTES
from headrace.server.wire import wire_fields

FLINK = json.loads((Path(__file__).parent / "flink_2_3.json").read_text())

LEFT_OUT = {"stream-graph", "other-concurrent-attempts", "data", "blocked"}
"""What Flink leaves out as well where there is nothing of it."""

OF_SUBCLASSES = {"className", "external_path", "discarded", "failure_timestamp", "failure_message"}

WITHOUT_EFFECT = {"includeSerializedValue"}
"""No object of Java is among the accumulators."""

OURS = {f"{route.method} {route.path}": route for route in ROUTES}


@pytest.mark.parametrize("path", FLINK)
def test_an_answer_has_the_fields_of_flinks(path: str) -> None:
    route, flink = OURS[path], FLINK[path]
    assert flink["status"] in (None, int(route.status))
    assert set(flink["query"]) - WITHOUT_EFFECT == set(route.query)
    if dataclasses.is_dataclass(route.answer):
        found = {name for _, name, _ in wire_fields(route.answer)}
        assert found - OF_SUBCLASSES == set(flink["fields"]) - LEFT_OUT


def test_nothing_is_there_that_flink_has_not_but_what_is_named_here() -> None:
    more = set(OURS) - set(FLINK)
    assert more == {
        "GET /healthz",
        "GET /readyz",
        "GET /jobs/:jobid/yarn-cancel",
        "GET /jobmanager/log",
        "GET /jobmanager/startup",
        "GET /jobmanager/stdout",
        "GET /jobs/:jobid/held-epoch",
        "POST /jobs/:jobid/held-epoch/release",
        "GET /jobs/:jobid/archive",
        "GET /jobs/:jobid/lineage",
        "GET /jobs/:jobid/logs/:filename",
        "GET /jobs/:jobid/topics",
        # Flink has these where programs can be submitted, and where there are files of logs
        "GET /jobmanager/logs/:filename",
        "GET /taskmanagers/:taskmanagerid/logs/:filename",
        "DELETE /jars/:jarid",
        "GET /jars/:jarid/plan",
        "POST /jars/:jarid/plan",
        "POST /jars/:jarid/run",
    }
