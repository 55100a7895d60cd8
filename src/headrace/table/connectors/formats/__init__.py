"""Table formats, by name: of files, of messages, and of change data."""

from headrace.table.connectors.formats.table_format import TABLE_FORMATS, BoundFormat, TableFormat, formats_in

__all__ = ["TABLE_FORMATS", "BoundFormat", "TableFormat", "formats_in"]
