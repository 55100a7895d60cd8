"""Joins of two keyed streams, on sorted arrays.

What a join keeps of each input is a log of runs by key and time (``join_log``). Records wait until a stretch of input
has ended; then all their pairs are found at once (``find_pairs``), and come out in the order in which matching the
records one by one would give them.
"""
