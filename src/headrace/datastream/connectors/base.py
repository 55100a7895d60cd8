"""What all connectors have in common."""

from __future__ import annotations

from headrace.connectors.delivery_guarantee import DeliveryGuarantee
from headrace.connectors.sink import Sink
from headrace.connectors.source import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
