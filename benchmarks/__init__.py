"""headrace beside Spark's own streaming, measured in one run on one machine: ``python -m benchmarks``."""
