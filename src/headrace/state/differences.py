"""What was stored and what is declared, in the words of errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from headrace.common.typeinfo import type_from_json

if TYPE_CHECKING:
    import pyarrow as pa

OTHER_UID: Final = "give the operator another uid, or restore the old declaration"
"""What is to be done when an operator has kept something else for itself."""

_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def difference(stored: Any, declared: Any) -> str:
    """Two descriptions that are not the same, next to each other."""
    before, now = in_words(stored), in_words(declared)
    if before == now:  # they differ in what the words leave out
        before, now = str(stored), str(declared)
    return f"stored {before}, declared {now}"


def difference_of_columns(stored: pa.Schema, declared: pa.Schema) -> str:
    """What is not the same in two schemas."""
    if stored.names != declared.names:
        return f"stored {', '.join(stored.names)}, declared {', '.join(declared.names)}"
    return "; ".join(
        f"{before.name!r} was stored as {before.type} and is declared as {now.type}"
        for before, now in zip(stored, declared, strict=True)
        if before.type != now.type
    )


def in_words(described: Any) -> str:
    """A description of keys or of aggregates, or a plain value."""
    if isinstance(described, list):
        return " and ".join(map(in_words, described)) or "none"
    if not isinstance(described, dict):
        return str(described)
    if "namespace" in described:
        return f"{in_words(described['key'])} and window"
    if "type" in described:
        return str(type_from_json(described["type"] if "storage" in described else described))
    return _of_kind(dict(described))


def _of_kind(described: dict[str, Any]) -> str:
    """What has a kind, perhaps the name of a column, and parameters: ``sum integers of price``."""
    words = " ".join(_INNER_CAPITAL.split(str(described.pop("kind", "")))).lower()
    of_column = f" of {described.pop('name')}" if "name" in described else ""
    parameters = ", ".join(_parameter(name.replace("_", " "), value) for name, value in described.items())
    return f"{words}{of_column}{f' ({parameters})' if parameters else ''}"


def _parameter(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} {in_words(value)}"
