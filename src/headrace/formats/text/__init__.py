"""Lines of text."""

from __future__ import annotations

from headrace.formats.text.reader import TextLineFormat
from headrace.formats.text.writer import TextLineEncoder

__all__ = ["TextLineEncoder", "TextLineFormat"]
