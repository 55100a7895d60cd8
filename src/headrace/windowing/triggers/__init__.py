"""Triggers: a kind a file."""
