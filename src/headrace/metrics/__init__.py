"""Metrics of user functions: counters, gauges, meters and distributions, under PyFlink's names."""

from headrace.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
