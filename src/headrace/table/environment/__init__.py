"""The Table API: environments, tables, and results of statements."""
