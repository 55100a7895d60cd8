"""SQL's aggregate functions: the inputs, the accumulators and the results of calls."""

from headrace.operators.aggregates.calls.call import AggregateOperation, bind_call

__all__ = ["AggregateOperation", "bind_call"]
