"""Windows: what records are put into, by whom, when their contents are shown, and which of them.

Programs derive classes from assigners, triggers and evictors and give them fields of their own, which dataclasses with
slots do not allow.
"""
