"""Reporters of metrics: listeners of a job's status that show it to Prometheus, StatsD, a log, and others."""
