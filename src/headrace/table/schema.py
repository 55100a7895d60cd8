"""Schemas by which tables over streams are declared."""

from headrace.common.public_module import public_module
from headrace.table.environment.schema import Schema

__all__ = ["Schema"]

public_module(__name__)
