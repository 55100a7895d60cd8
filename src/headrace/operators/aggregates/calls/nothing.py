"""The accumulators of no records, whose results are those of aggregates over nothing."""

import numpy as np
import pyarrow as pa

from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.aggregates.aggregator import AggregatorList, DerivedColumn, GroupedRows, Input
from headrace.operators.aggregates.simple import CountRows
from headrace.state.runs.grouping import Groups, Segments


def accumulators_of_nothing(aggregators: AggregatorList, input_type: TypeInformation, count: int) -> list[pa.Array]:
    """A number of accumulators of no records."""
    schema = schema_of(input_type)
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    columns: dict[Input, pa.Array] = {}
    for source in aggregators.inputs:
        if isinstance(source, DerivedColumn):
            columns[source] = pa.nulls(count, source.of(nulls).type)
        elif isinstance(source, int):
            columns[source] = pa.nulls(count, schema.field(source).type)
    each = Groups(np.arange(count), Segments(np.arange(count), count))
    rows = GroupedRows(columns, np.zeros(count, np.int64), each)
    nothing = pa.array(np.zeros(count, np.int64))
    return [
        column
        for aggregator in aggregators.aggregators
        for column in ([nothing] if isinstance(aggregator, CountRows) else aggregator.accumulate(rows))
    ]
