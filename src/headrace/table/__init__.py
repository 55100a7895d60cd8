"""Tables and SQL, in Flink's dialect: a statement is parsed, bound to a catalog, rewritten and planned."""
