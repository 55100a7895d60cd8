"""Sinks in the driver: what is committed with an epoch, and the second phase."""
