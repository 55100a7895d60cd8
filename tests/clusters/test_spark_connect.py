"""Spark Connect is refused, with what to do."""

from __future__ import annotations

import pytest

from headrace.common.errors import ConfigurationError
from headrace.runtime.spark.session import acquire_session
from headrace.runtime.spark.session_start import SessionRequest, prepare

WORDS = "but jobs do not run over Spark Connect: .*\n  Run the program where Spark's driver may be"
URL = "sc://localhost:15002"


def test_in_a_process_whose_sessions_are_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(ConfigurationError, match=f"this process is a client of Spark Connect, {WORDS}"):
        acquire_session({})


@pytest.mark.parametrize(
    ("settings", "master", "environment", "named"),
    [
        ({}, None, {"SPARK_REMOTE": URL}, f"SPARK_REMOTE is {URL}"),
        ({}, URL, {}, f"the master is {URL}"),
        ({"spark.remote": URL}, None, {}, f"spark.remote is {URL}"),
        ({"spark.api.mode": "connect"}, None, {}, r"spark\.api\.mode is connect"),
    ],
)
def test_before_java_starts(
    settings: dict[str, str], master: str | None, environment: dict[str, str], named: str
) -> None:
    request = SessionRequest(settings, master, uses_class_archive=False, environment=environment)
    with pytest.raises(ConfigurationError, match=f"{named}, {WORDS}"):
        prepare(request, {})
