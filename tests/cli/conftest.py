"""Programs for the command line to run, and consoles to look at."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

DOUBLING = """
    import sys

    from headrace.client.submission import submit
    from headrace.common.configuration import Configuration
    from headrace.common.typeinfo import Types
    from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
    from headrace.connectors.driver_sink import PrintSink
    from headrace.graph import specs
    from headrace.graph.stream_graph import Edge
    from headrace.graph.stream_graph import StreamGraph


    def doubling(count, rate=None):
        limit = None if rate is None else RateLimiterStrategy.per_second(rate)
        source = DataGeneratorSource(lambda index: index, count, limit, Types.LONG())
        graph = StreamGraph()
        graph.add(specs.SourceSpec(source), "numbers")
        graph.add(specs.MapSpec(lambda value: value * 2, Types.LONG()), "double", (Edge(0),))
        graph.add(specs.SinkSpec(PrintSink()), "print", (Edge(1),))
        return graph


    def execute(graph, name="doubling", configuration=None):
        return submit(graph, configuration or Configuration(), name).get_job_execution_result().result()
"""
"""What a program needs to run a job of its own, below the programming interface."""


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Writes a program that may use ``doubling`` and ``execute``."""
    (tmp_path / "jobs.py").write_text(dedent(DOUBLING))

    def write(body: str, name: str = "job.py") -> Path:
        path = tmp_path / name
        path.write_text("from jobs import *\n" + dedent(body))
        return path

    return write
