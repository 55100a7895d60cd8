"""The parser of Flink's SQL dialect: from text to syntax trees.

It does not know catalogs, types or functions: it refuses only what is not SQL, whatever names refer to.
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
