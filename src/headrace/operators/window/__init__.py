"""Windows over keyed streams.

``columnar`` has built-in aggregates over windows that follow from the timestamps, the clock or the count of records;
``general`` every assigner, trigger and evictor, for functions of the user and for built-in aggregates. What both need
lies beside them.
"""
