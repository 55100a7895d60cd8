"""Operators over changelogs, which emit the changes that each record makes."""
