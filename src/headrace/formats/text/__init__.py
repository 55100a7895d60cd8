"""Lines of text."""
