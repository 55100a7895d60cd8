"""Built-in aggregates over windows, column by column; begin with ``columnar_operator``."""
