"""Built-in aggregates over windows, column by column: one operator for each kind of windows, and the sender's half."""
