"""Catalogs: databases, and the tables, views and functions in them."""

from headrace.common.public_module import public_module

__all__: list[str] = []

public_module(__name__)
