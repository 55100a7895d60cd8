"""SQL's aggregate functions as aggregators: what a call looks at, how it is remembered, and what it gives."""

from headrace.operators.aggregates.calls.call import AggregateOperation, bind_call

__all__ = ["AggregateOperation", "bind_call"]
