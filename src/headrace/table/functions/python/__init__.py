"""User-defined functions, which are written in Python."""
