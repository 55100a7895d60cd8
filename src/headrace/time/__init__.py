"""Watermarks and clocks."""
