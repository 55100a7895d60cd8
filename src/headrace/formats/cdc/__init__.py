"""Changes of tables as messages, in the formats of change data capture."""
