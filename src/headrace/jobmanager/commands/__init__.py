"""What a running job can be asked for, between two epochs: savepoints, another parallelism, to stop."""
