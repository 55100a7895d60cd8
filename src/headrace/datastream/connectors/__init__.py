"""Connectors under PyFlink's module paths."""

from __future__ import annotations

from headrace.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
