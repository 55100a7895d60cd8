"""Checkpoints: the chain of manifests, what a job starts from, compaction, and which of them stay."""
