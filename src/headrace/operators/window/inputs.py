"""The columns that a window's aggregates look at: fields of the records, and expressions over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.expressions import Bound
from headrace.operators.columns import computed

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.operators.base import OperatorContext
    from headrace.operators.window.part_list import PartList
    from headrace.operators.window.parts import Input


def input_columns(parts: PartList, batch: Batch, context: OperatorContext) -> dict[Input, pa.Array]:
    """What the parts need of a batch.

    Raises:
        UserFunctionError: when an expression has no value for a record.
    """
    sources = parts.inputs
    expressions = tuple(source for source in sources if isinstance(source, Bound))
    found: dict[Input, pa.Array] = {i: batch.columns.column(i) for i in sources if isinstance(i, int)}
    if expressions:
        found |= zip(expressions, computed(expressions, batch, context), strict=True)
    return found
