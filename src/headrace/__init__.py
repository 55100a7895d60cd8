"""headrace: Apache Flink's programming model and guarantees on Apache Spark."""

__version__ = "0.1.0"
