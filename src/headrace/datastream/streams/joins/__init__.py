"""Joins and co-groups of two streams, as a program asks for them."""
