"""Runtimes, which execute the stages of an epoch: in one process, or as a Spark query."""
