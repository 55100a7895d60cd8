"""The settings of table environments."""

from headrace.common.public_module import public_module
from headrace.table.environment.settings import TableConfig

__all__ = ["TableConfig"]

public_module(__name__)
