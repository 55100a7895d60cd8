"""Epochs in this process, without Spark: the oracle of the tests and the users' harness."""
