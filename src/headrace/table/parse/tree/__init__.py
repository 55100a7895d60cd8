"""Syntax trees: immutable nodes with their positions, which the parser creates and the binder reads."""
