"""The words that all forms of showing a job use: names on one line, partitioning, keys."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from headrace.graph.specs import SinkSpec

if TYPE_CHECKING:
    from headrace.graph.nodes import KeySelection, Node
    from headrace.graph.partitioning import Partitioning


def one_line(text: str) -> str:
    r"""A name on one line: what cannot be printed is written as Python would escape it (``\n``)."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def key_label(key: KeySelection) -> str:
    """What a stream is keyed by: the fields, the expression, or the name of the function."""
    if key.fields is not None:
        return ", ".join(map(str, key.fields))
    return _selector_name(key.selector) if key.expression is None else key.expression.text


def _selector_name(selector: Any) -> str:
    if isinstance(field := getattr(selector, "field", None), str | int):
        return str(field)
    if inspect.ismethod(selector):
        return type(selector.__self__).__name__
    name = str(getattr(selector, "__name__", type(selector).__name__))
    return "lambda" if name == "<lambda>" else name


def ship_label(partitioning: Partitioning, key: KeySelection | None, side_output: str | None) -> str:
    """How records travel: ``HASH(card)``, ``FORWARD``, ``FORWARD, side output late``."""
    label = partitioning.label if key is None else f"{partitioning.label}({key_label(key)})"
    return label if side_output is None else f"{label}, side output {side_output}"


def role_of(node: Node) -> str:
    """What Flink's plan calls a ``pact``: where the node stands."""
    if node.is_source:
        return "Data Source"
    return "Data Sink" if isinstance(node.spec, SinkSpec) else "Operator"


def count_of(number: int, noun: str) -> str:
    """``1 stage``, ``2 stages``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
