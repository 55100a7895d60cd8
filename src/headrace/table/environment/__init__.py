"""The API of tables: environments, which execute statements, and what these give."""
