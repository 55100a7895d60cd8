"""Evictors: a kind a file."""
