"""Logical plans: typed trees of relations and scalars, with every name resolved.

The binder makes them, rules rewrite them, and the physical planner turns them into operators. Nodes are immutable and
equal when they mean the same. They have the shape of Calcite's logical plans, which ``EXPLAIN`` shows.
"""
