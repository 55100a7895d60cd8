"""Formats made of lines: finding whole lines in blocks of bytes, and the lines that cannot be read."""
