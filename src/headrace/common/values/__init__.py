"""One handler for each type, with all that is done with its values: Arrow, coercion, checks, text, JSON, keys.

The rules of what fits a type, and what becomes of it, are in the documentation of
:class:`~headrace.common.typeinfo.Types`. Whatever fits comes back equal, of the class that the type stands for.
"""

from __future__ import annotations

from headrace.common.values.handler import TypeHandler
from headrace.common.values.handlers import basic_handler_of, handler_of, record_handler_of, stream_handler_of

__all__ = ["TypeHandler", "basic_handler_of", "handler_of", "record_handler_of", "stream_handler_of"]
