"""Requests to services: many at a time, in an event loop of the operator's own."""
