"""A source of several sources, one after the other."""

from __future__ import annotations

from headrace.connectors.hybrid.source import HybridSource, HybridSourceBuilder
from headrace.connectors.hybrid.switching import SourceSwitchContext

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]
