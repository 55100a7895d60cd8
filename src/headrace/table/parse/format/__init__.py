"""Formatting of trees as text in the form of Flink's expanded views: names in backticks, a clause per line.

The text parses to an equal tree. DDL is not written here, but from the objects of the catalog.
"""

from headrace.table.parse.format import queries  # noqa: F401 - gives sql_of the queries
from headrace.table.parse.format.expressions import literal, quoted, quoted_path, sql_of

__all__ = ["literal", "quoted", "quoted_path", "sql_of"]
