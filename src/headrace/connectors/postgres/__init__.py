"""PostgreSQL: its changes as a source, by logical replication, and its tables as a sink."""
