"""Windows over rows that have their time, or their window, in a column."""
