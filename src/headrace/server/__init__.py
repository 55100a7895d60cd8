"""The REST API of running jobs: Flink's paths, fields and errors, served from what the status model knows."""
