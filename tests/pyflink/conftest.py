"""Environments: in both modes, and for what only streams have."""

from __future__ import annotations

import pytest

from headrace.datastream import StreamExecutionEnvironment
from tests.pyflink.jobs import MODES, environment


@pytest.fixture(params=MODES, ids=lambda mode: mode.name.lower())
def env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    return environment(request.param)


@pytest.fixture
def streaming() -> StreamExecutionEnvironment:
    return environment()
