"""Clients of Kafka: their settings, and what their errors mean."""
