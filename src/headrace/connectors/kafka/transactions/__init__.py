"""Exactly once: messages wait in the checkpoint, and are published in one transaction with a marker of their epoch."""
