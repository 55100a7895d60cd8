"""A real Kafka on this machine, for trying things out and for tests."""
