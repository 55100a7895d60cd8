"""Windows: the assigners that put records into them, the triggers that fire them, and evictors.

Programs derive classes from assigners, triggers and evictors and give them fields of their own, which dataclasses with
slots do not allow.
"""
