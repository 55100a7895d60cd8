"""Rewrites of logical trees: the same rows, in a shape that operators compute with less.

:func:`~headrace.table.rules.optimizer.optimized` applies them one after the other. Each is a module with a function
from a tree to a tree.
"""
