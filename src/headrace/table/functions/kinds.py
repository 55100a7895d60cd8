"""The kinds of functions."""

from enum import Enum


class FunctionKind(Enum):
    """The kinds of functions, which differ in where they can be called."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    OVER = "over"
    GROUP_WINDOW = "group window"
    TABLE = "table"
    PLANNER = "planner"
    """A function that the binder or the planner replaces: ``PROCTIME()``, ``TUMBLE_START``."""
