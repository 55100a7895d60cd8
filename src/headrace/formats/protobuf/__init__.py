"""Protobuf: messages, read and written in columns."""
