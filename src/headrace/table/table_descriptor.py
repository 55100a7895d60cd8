"""Descriptors by which tables are defined in Python."""

from headrace.common.public_module import public_module
from headrace.table.environment.descriptors import FormatDescriptor, TableDescriptor

__all__ = ["FormatDescriptor", "TableDescriptor"]

public_module(__name__)
