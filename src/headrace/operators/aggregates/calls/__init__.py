"""SQL's aggregate functions as aggregators: what a call looks at, how it is remembered, and what it gives."""

from headrace.operators.aggregates.calls.call import AggregateCall, bind_call

__all__ = ["AggregateCall", "bind_call"]
