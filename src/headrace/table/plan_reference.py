"""References to compiled plans."""

from headrace.common.public_module import public_module
from headrace.table.environment.compiled_plan import FilePlanReference, JsonContentPlanReference, PlanReference

__all__ = ["FilePlanReference", "JsonContentPlanReference", "PlanReference"]

public_module(__name__)
