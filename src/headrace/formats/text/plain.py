"""Records as text, for people to read."""

from __future__ import annotations

from typing import Any

from headrace.common.row import Row


def text_of(record: Any) -> str:
    """A record as Flink prints it: a row as ``+I[1, a]``, everything else as Python's ``str`` gives it."""
    if type(record) is str:
        return record
    if isinstance(record, Row):
        return f"{record.get_row_kind()}[{', '.join(map(text_of, record))}]"
    return str(record)
