"""Assigners: a kind a file."""
