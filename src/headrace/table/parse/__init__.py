"""Text to the tree of a statement: the first pass over SQL, in Flink's dialect.

It knows nothing of catalogs, types and functions: what it refuses is no SQL, whatever the names mean.
"""

from headrace.table.parse.parser import parse_expression, parse_script, parse_statement, parse_type
from headrace.table.parse.source import Position, SqlParseError, SqlSource

__all__ = [
    "Position",
    "SqlParseError",
    "SqlSource",
    "parse_expression",
    "parse_script",
    "parse_statement",
    "parse_type",
]
