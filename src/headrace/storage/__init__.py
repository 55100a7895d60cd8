"""Storages behind one protocol, and what is built on it: checkpoint folders, input files, output."""
