"""headrace: Apache Flink's programming model and guarantees on Apache Spark."""

from __future__ import annotations

import sys
from typing import Any, Final

__version__ = "0.1.0"

_OTHER_SYSTEM: Final = (
    "read the data as files (FileSource) or as a DataFrame (env.from_dataframe), or write a source or a sink of your "
    "own: docs/connectors.md"
)
_OTHER_FORMAT: Final = "CSV, lines of JSON and Parquet are there; docs/connectors.md says how to write a format"
_REQUESTS: Final = "make the request in map(...), or many at a time in map_batches(...)"

MISSING_MODULES: Final = {
    "headrace.table": "write the query with streams and expressions: docs/expressions.md",
    "headrace.cep": "match patterns in a KeyedProcessFunction, with states and timers",
    "headrace.metrics": "count in a state or a side output; the job's own counters are in its JobExecutionResult",
    "headrace.datastream.state_backend": "set state.backend.type in the configuration, or leave it out",
    "headrace.datastream.async_data_stream": _REQUESTS,
    "headrace.datastream.async_function": _REQUESTS,
    "headrace.datastream.formats.avro": _OTHER_FORMAT,
    "headrace.datastream.formats.orc": _OTHER_FORMAT,
    "headrace.datastream.formats.protobuf": _OTHER_FORMAT,
    "headrace.common.restart_strategy": "set restart-strategy.type in the configuration: docs/configuration.md",
    "headrace.datastream.connectors.cassandra": _OTHER_SYSTEM,
    "headrace.datastream.connectors.dynamic_kafka": _OTHER_SYSTEM,
    "headrace.datastream.connectors.elasticsearch": _OTHER_SYSTEM,
    "headrace.datastream.connectors.hybrid_source": _OTHER_SYSTEM,
    "headrace.datastream.connectors.jdbc": _OTHER_SYSTEM,
    "headrace.datastream.connectors.kafka": _OTHER_SYSTEM,
    "headrace.datastream.connectors.kinesis": _OTHER_SYSTEM,
    "headrace.datastream.connectors.mongodb": _OTHER_SYSTEM,
    "headrace.datastream.connectors.opensearch": _OTHER_SYSTEM,
    "headrace.datastream.connectors.pulsar": _OTHER_SYSTEM,
    "headrace.datastream.connectors.rabbitmq": _OTHER_SYSTEM,
}
"""Modules that PyFlink has and headrace has not, with what to use instead."""


class _MissingModules:
    """Asked last, when no other finder knows a module."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find nothing.

        Raises:
            ModuleNotFoundError: for a module that a ported program would look for.
        """
        if name in MISSING_MODULES:
            raise ModuleNotFoundError(f"{name} is not there yet: {MISSING_MODULES[name]}", name=name)


if _MissingModules not in sys.meta_path:
    sys.meta_path.append(_MissingModules)
