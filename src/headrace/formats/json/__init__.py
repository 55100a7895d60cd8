"""Lines of JSON, one document a line."""
