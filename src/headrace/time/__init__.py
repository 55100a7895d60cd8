"""Watermarks, windows and clocks."""
