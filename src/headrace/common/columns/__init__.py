"""Fast conversion between Python records and Arrow columns, for a declared type.

The rules of what fits a type, and what becomes of it, are in the documentation of
:class:`~headrace.common.typeinfo.Types`. Whatever fits comes back equal, of the class that the type stands for.
"""

from __future__ import annotations

from headrace.common.columns.fitting import Fitter, fitter_of
from headrace.common.columns.layout import (
    VALUE_COLUMN,
    Layout,
    array_to_values,
    layout_of,
    values_to_array,
)

__all__ = [
    "VALUE_COLUMN",
    "Fitter",
    "Layout",
    "array_to_values",
    "fitter_of",
    "layout_of",
    "values_to_array",
]
