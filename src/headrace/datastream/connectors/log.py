"""Topics of the embedded log as a source and as a sink."""

from headrace.common.public_module import public_module
from headrace.connectors.log.sink import LogSink, LogSinkBuilder
from headrace.connectors.log.source import LogSource, LogSourceBuilder
from headrace.connectors.partitions import OffsetResetStrategy, OffsetsInitializer

__all__ = [
    "LogSink",
    "LogSinkBuilder",
    "LogSource",
    "LogSourceBuilder",
    "OffsetResetStrategy",
    "OffsetsInitializer",
]

public_module(__name__)
