"""``OutputTag``, under PyFlink's module path."""

from headrace.common.output_tag import OutputTag
from headrace.common.public_module import public_module

__all__ = ["OutputTag"]

public_module(__name__)
