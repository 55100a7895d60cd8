"""Table environments."""

from headrace.common.public_module import public_module
from headrace.table.environment.stream_tables import StreamTableEnvironment
from headrace.table.environment.table_environment import TableEnvironment

__all__ = ["StreamTableEnvironment", "TableEnvironment"]

public_module(__name__)
