"""A sink that prints."""

from __future__ import annotations

from headrace.connectors.print_sink.sink import PrintSink

__all__ = ["PrintSink"]
