"""The State Processor API: the state of a job as tables, after Flink's ``flink-state-processor-api``."""

from headrace.state_processor.bootstrap import (
    BootstrapTransformation,
    BroadcastStateBootstrapFunction,
    KeyedOperatorTransformation,
    KeyedStateBootstrapFunction,
    OneInputTransformation,
    OperatorTransformation,
    StateBootstrapFunction,
    WindowedOperatorTransformation,
)
from headrace.state_processor.reader import Difference, SavepointReader, StoredTable, compare
from headrace.state_processor.state_tables import StateTables, StateTransformation
from headrace.state_processor.writer import SavepointWriter

__all__ = [
    "BootstrapTransformation",
    "BroadcastStateBootstrapFunction",
    "Difference",
    "KeyedOperatorTransformation",
    "KeyedStateBootstrapFunction",
    "OneInputTransformation",
    "OperatorTransformation",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapFunction",
    "StateTables",
    "StateTransformation",
    "StoredTable",
    "WindowedOperatorTransformation",
    "compare",
]
