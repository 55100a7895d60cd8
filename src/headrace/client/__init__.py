"""Submission: from a graph and a configuration to a running job."""
