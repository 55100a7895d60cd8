"""Answers and requests of the REST API, by subject; the names on the wire are Flink's."""
