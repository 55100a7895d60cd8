"""Plans that later sessions execute."""

from headrace.common.public_module import public_module
from headrace.table.environment.compiled_plan import CompiledPlan

__all__ = ["CompiledPlan"]

public_module(__name__)
