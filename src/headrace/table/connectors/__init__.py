"""Table connectors, which ``'connector' = '...'`` names: factories of sources and sinks, found by entry point."""

from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import TABLE_CONNECTORS, TableConnector, TableContext
from headrace.table.connectors.table_sink import TableSink
from headrace.table.connectors.table_source import TableSource

__all__ = ["TABLE_CONNECTORS", "ChangelogMode", "TableConnector", "TableContext", "TableSink", "TableSource"]
