"""Changes of tables as messages, in the formats of those who watch databases (change data capture)."""
