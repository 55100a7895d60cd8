"""Where PySpark is not installed, jobs run in one process, and those that want Spark say what to install."""

from __future__ import annotations

import pytest

from headrace.client import submission
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.datastream import StreamExecutionEnvironment


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        (set(), r"no pyspark and no pandas here: run pip install 'headrace\[spark\]', or .* --runtime local"),
        ({"pyspark"}, "no pandas here"),
    ],
)
def test_what_to_install(monkeypatch: pytest.MonkeyPatch, installed: set[str], message: str) -> None:
    monkeypatch.setattr(submission, "find_spec", lambda name: name if name in installed else None)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=message):
        env.execute()


def test_the_local_runtime_asks_for_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "find_spec", lambda name: None)
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert env.from_collection([1, 2]).execute_and_collect(limit=2) == [1, 2]
