"""Settings of table environments."""

from headrace.common.public_module import public_module
from headrace.table.environment.settings import EnvironmentSettings

__all__ = ["EnvironmentSettings"]

public_module(__name__)
