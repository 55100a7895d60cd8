"""How the records of an edge are keyed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.call_site import UNKNOWN_CALL_SITE, CallSite

if TYPE_CHECKING:
    from headrace.expressions import Bound
    from headrace.state.keys import KeyCodec


@dataclass(frozen=True, slots=True)
class KeySelection:
    """How the key of a record is found and what it is.

    Attributes:
        codec: encodes and hashes keys; knows their type.
        selector: the user's key function, called for each record where nothing else finds the key; None when it is an
            expression.
        fields: names or indices of the fields that make the key, when that is known: then no Python call is needed.
        expression: computes the keys from columns, unless they are one column anyway.
        names: what windows call the columns of the key where it is made of no fields; one for all of it, or one for
            each of several expressions.
        is_single: whether the key is the one field itself, not a tuple of fields.
        call_site: where ``key_by`` was called.
        is_attached: whether the producer hands over keyed batches already.
        only_routes: whether the receiver has no use for the keys (it finds them in the records).
    """

    codec: KeyCodec
    selector: Any
    fields: tuple[str | int, ...] | None
    is_single: bool = True
    expression: Bound | None = None
    names: tuple[str, ...] = ("key",)
    call_site: CallSite = UNKNOWN_CALL_SITE
    is_attached: bool = False
    only_routes: bool = False

    @property
    def label(self) -> str:
        """What records are keyed by: the fields, the expression, or the name of the function."""
        if self.fields is not None:
            return ", ".join(map(str, self.fields))
        return _selector_name(self.selector) if self.expression is None else self.expression.text


def _selector_name(selector: Any) -> str:
    if isinstance(found := getattr(selector, "field", None), str | int):
        return str(found)
    if inspect.ismethod(selector):
        return type(selector.__self__).__name__
    name = str(getattr(selector, "__name__", type(selector).__name__))
    return "lambda" if name == "<lambda>" else name
