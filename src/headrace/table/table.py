"""Queries that are not run yet."""

from headrace.common.public_module import public_module
from headrace.table.environment.table import Table

__all__ = ["Table"]

public_module(__name__)
