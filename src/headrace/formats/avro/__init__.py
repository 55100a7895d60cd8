"""Avro: messages and files, read and written in columns."""
