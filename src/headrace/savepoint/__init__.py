"""Savepoints: what a job was at the end of an epoch, in a directory of its own that other jobs can start from."""
