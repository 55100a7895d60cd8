"""A sink that hands records to the program that runs the job."""

from __future__ import annotations

from headrace.connectors.collect.sink import CollectSink

__all__ = ["CollectSink"]
