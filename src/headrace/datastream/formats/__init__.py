"""Formats under PyFlink's module paths."""

from headrace.common.public_module import public_module

__all__: list[str] = []

public_module(__name__)
