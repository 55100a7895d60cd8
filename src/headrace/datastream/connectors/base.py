"""What all connectors have in common, and those that are found by a name."""

from __future__ import annotations

from headrace.connectors.connector import create_sink, create_source
from headrace.connectors.delivery_guarantee import DeliveryGuarantee
from headrace.connectors.sink import Sink
from headrace.connectors.source import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source", "create_sink", "create_source"]
