"""Lookup joins: each record beside what is known of its key somewhere else."""
