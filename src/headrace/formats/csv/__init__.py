"""Comma-separated values."""
