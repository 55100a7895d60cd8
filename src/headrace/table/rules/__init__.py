"""Rewrites of logical plans to equivalent ones that cost less.

:func:`~headrace.table.rules.optimizer.optimized` applies them one after the other. Each is a module with a function
from a tree to a tree.
"""
