"""Details that plans can show in addition."""

from headrace.common.public_module import public_module
from headrace.table.parse.tree.statements import ExplainDetail

__all__ = ["ExplainDetail"]

public_module(__name__)
