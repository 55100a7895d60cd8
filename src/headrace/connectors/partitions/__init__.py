"""Sources of partitioned topics: which partitions are read, from where, and an epoch's share of each."""
