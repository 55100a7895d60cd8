"""The window operator for every assigner, trigger and evictor: records are put into windows as Flink does it."""
