"""Tables of PostgreSQL: their changes as a source, and as a sink."""

from headrace.common.public_module import public_module
from headrace.connectors.postgres.enumerator import StartupMode
from headrace.connectors.postgres.sink import PostgresSink
from headrace.connectors.postgres.source import PostgresSource

__all__ = ["PostgresSink", "PostgresSource", "StartupMode"]

public_module(__name__)
