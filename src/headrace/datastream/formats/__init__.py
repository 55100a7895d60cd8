"""Formats under PyFlink's module paths."""
