"""Joins: of records in the same window, or whose times lie within an interval of each other.

An interval join keeps each input as a table that is sorted by key and time (``state.key_sorted_table``). Records wait
until a stretch of input has ended. Then all their pairs are found at once (``find_pairs``), and come out in the order
in which matching the records one by one would give them.
"""
