"""Epochs: what is read, the run on a runtime, and what becomes of the reports of tasks."""
