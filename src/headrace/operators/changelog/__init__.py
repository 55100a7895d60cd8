"""Operators over changelogs: rows of keys that come, change and go, each record with the changes that it makes."""
