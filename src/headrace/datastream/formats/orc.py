"""ORC."""

from headrace.common.public_module import public_module
from headrace.formats.orc import OrcBulkWriters, OrcFormat

__all__ = ["OrcBulkWriters", "OrcFormat"]

public_module(__name__)
