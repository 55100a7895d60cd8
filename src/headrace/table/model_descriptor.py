"""Descriptors by which models are defined in Python."""

from headrace.common.public_module import public_module
from headrace.table.environment.descriptors import ModelDescriptor

__all__ = ["ModelDescriptor"]

public_module(__name__)
