"""One operator kind a file: batches and watermarks in, batches and watermarks out; no Spark, no I/O."""
