"""A source of several sources, one after the other."""

from headrace.common.public_module import public_module
from headrace.connectors.hybrid import HybridSource, HybridSourceBuilder, SourceSwitchContext
from headrace.connectors.source import Boundedness

__all__ = ["Boundedness", "HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]

public_module(__name__)
