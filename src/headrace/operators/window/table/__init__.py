"""Windows over rows whose time, or window, is in a column: SQL's window functions."""
