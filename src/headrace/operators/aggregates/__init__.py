"""Built-in aggregates: what the user asks for, and the aggregators that compute it over groups of rows."""
