"""What expressions make of pairs, column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.operators.columns import computed
from headrace.operators.join.tagged import pair_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound
    from headrace.operators.base import OperatorContext, Output
    from headrace.operators.join.find_pairs import Pairs


class ColumnResults:
    """A row of expressions for each pair.

    Attributes:
        function: there is none.

    Args:
        columns: an expression over the pair for each field.
        input_types: the types of both inputs.
        output_type: the type of the rows.
    """

    function: Any = None
    maker: Callable[..., Any] | None = None

    def __init__(
        self, columns: Sequence[Bound], input_types: Sequence[TypeInformation], output_type: TypeInformation
    ) -> None:
        self._columns = columns
        self._pair_type = pair_type(*input_types)
        self._output_type = output_type

    def emit(self, pairs: Pairs, context: OperatorContext, output: Output) -> None:
        """Computes the expressions."""
        schema = layout_of(self._pair_type).schema
        records = pa.RecordBatch.from_arrays([pairs.left, pairs.right], schema=schema)
        batch = Batch(self._pair_type, pairs.times, pairs.watermarks, columns=records)
        made = computed(self._columns, batch, context)
        columns = pa.RecordBatch.from_arrays(made, schema=layout_of(self._output_type).schema)
        output.emit(batch.replaced(self._output_type, columns=columns))
