"""A source of elements that the program holds."""

from __future__ import annotations

from headrace.connectors.collection.source import CollectionSource

__all__ = ["CollectionSource"]
