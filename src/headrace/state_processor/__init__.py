"""The State Processor API: the state of a job as tables, after Flink's ``flink-state-processor-api``."""

from __future__ import annotations

from headrace.state_processor.comparison import Difference, compare
from headrace.state_processor.reader import SavepointReader, StoredTable

__all__ = ["Difference", "SavepointReader", "StoredTable", "compare"]
