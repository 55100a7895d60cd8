"""ORC files."""

from __future__ import annotations

from headrace.formats.orc.reader import OrcFormat
from headrace.formats.orc.writer import OrcBulkWriters

__all__ = ["OrcBulkWriters", "OrcFormat"]
