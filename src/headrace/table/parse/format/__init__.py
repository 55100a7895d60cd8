"""Trees back to text, as Flink shows the queries of views: names in backticks, a clause a line.

What is written parses to an equal tree. Statements that define tables are written by the catalog, from what it holds.
"""

from headrace.table.parse.format import queries  # noqa: F401 - gives sql_of the queries
from headrace.table.parse.format.expressions import literal, quoted, sql_of

__all__ = ["literal", "quoted", "sql_of"]
