"""Lineage: which datasets a job reads and writes, and which columns come from which."""
