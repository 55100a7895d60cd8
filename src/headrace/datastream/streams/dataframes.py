"""The results of a bounded job as a Spark DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.connectors.source import Boundedness
from headrace.datastream.streams.checks import refused
from headrace.graph.specs import SourceSpec

if TYPE_CHECKING:
    from headrace.datastream.streams.data_stream import DataStream


def to_dataframe(stream: DataStream, job_name: str | None) -> Any:
    """Run the job of a stream's environment, and read what it wrote for the stream.

    Raises:
        InvalidProgramError: when a source of the stream is unbounded.
        UnsupportedOperationError: when there are no DataFrames.
    """
    check_bounded(stream)
    try:
        from headrace.client.dataframe import DataFrameTarget  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError as error:
        raise UnsupportedOperationError(
            "to_dataframe() is not supported: write the stream with sink_to(FileSink...) and read the files"
        ) from error
    environment = stream.get_execution_environment()
    target = DataFrameTarget(stream.get_type(), environment.get_configuration())
    stream.sink_to(target.sink)
    environment.execute(job_name)
    return target.dataframe()


def check_bounded(stream: DataStream) -> None:
    """Refuse a stream that never ends.

    Raises:
        InvalidProgramError: naming the source.
    """
    graph = stream.get_execution_environment().transformations.graph
    for node in graph.subgraph({edge.source for edge in stream._edges}):
        if isinstance(node.spec, SourceSpec) and node.spec.source.boundedness is not Boundedness.BOUNDED:
            raise refused(
                f"to_dataframe() needs a job that ends, but source {node.name!r} is unbounded: use sink_to(...)",
                InvalidProgramError,
            )
