"""Sessions of event time with one gap for all records."""
