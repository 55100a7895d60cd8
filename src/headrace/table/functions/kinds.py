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
    """Known to the binder or the planner only, which replace it: ``PROCTIME()``, ``TUMBLE_START``."""
