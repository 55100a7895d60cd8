"""Metrics of user functions: counters, gauges, meters and distributions, under PyFlink's names."""

from headrace.common.public_module import public_module
from headrace.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

public_module(__name__)
