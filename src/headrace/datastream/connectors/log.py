"""Topics of the embedded log as a source and as a sink."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.connectors.log import (
    LogSink,
    LogSinkBuilder,
    LogSource,
    LogSourceBuilder,
    OffsetResetStrategy,
    OffsetsInitializer,
)

__all__ = [
    "LogSink",
    "LogSinkBuilder",
    "LogSource",
    "LogSourceBuilder",
    "OffsetResetStrategy",
    "OffsetsInitializer",
]

public_module(__name__)
